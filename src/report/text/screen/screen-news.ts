import { formatSeconds } from '../../../units/durations.js';
import type { Alert, WatchEvent } from '../../../watch/types.js';
import { type Paint, type Span, span, type TextStyle } from '../spans.js';
import { wrapText } from '../wrap-text.js';

interface News {
  /** 0 is over; of those that hold, a critical one comes first. */
  readonly rank: 0 | 1 | 2;
  readonly atSeconds: number;
  readonly mark: string;
  readonly deviceId: string;
  readonly text: string;
  readonly paint: Paint;
}

/** More than any screen is high; the rest is in the report. */
const maxNews = 100;
/** A sentence of ours has at most four lines at 60 columns; a longer one comes from outside. */
const maxLines = 6;
/** Narrower than this a sentence would be one word a line. */
const leastTextColumns = 20;

/** Alerts that still hold, critical ones before others, then what happened before, newest first with their age: the lines of each. */
export function newsItems(
  model: {
    readonly alerts: readonly Alert[];
    readonly events: readonly WatchEvent[];
    readonly nowSeconds: number;
  },
  columns: number,
  style: TextStyle,
): Span[][][] {
  const active = activeAlerts(model.alerts);
  const news = [
    ...model.alerts.map((alert) => alertNews(alert, active.has(alert), style)),
    ...model.events.flatMap(eventNews),
  ]
    .toSorted((one, other) => other.rank - one.rank || other.atSeconds - one.atSeconds)
    .slice(0, maxNews);
  return news.map(({ atSeconds, mark, deviceId, text, paint }) => {
    const age = `${formatSeconds(Math.max(0, model.nowSeconds - atSeconds))} ago`;
    const when = columns >= 40 ? `${age.padEnd(14)} ` : '';
    const about = text.includes(deviceId) ? text : `${deviceId} ${text}`;
    // The fact is at the end of the sentence: it is wrapped, not cut.
    const lines = wrapText(about, Math.max(leastTextColumns, columns - 2 - when.length));
    return lines
      .slice(0, maxLines)
      .map((line, index) => [
        span(index === 0 ? `${mark} ` : '  ', paint),
        span(index === 0 ? when : ' '.repeat(when.length), 'dim'),
        span(line, paint),
      ]);
  });
}

/** Of each kind, device and process the last word counts. */
export function activeAlerts(alerts: readonly Alert[]): ReadonlySet<Alert> {
  const last = new Map(
    alerts.map((alert) => [`${alert.kind} ${alert.deviceId} ${alert.pid ?? ''}`, alert]),
  );
  return new Set([...last.values()].filter(({ state }) => state === 'raised'));
}

function alertNews(alert: Alert, isActive: boolean, style: TextStyle): News {
  const cleared = alert.state === 'cleared';
  const sign = style.unicode ? ['▲', '✓'] : ['!', '-'];
  return {
    rank: isActive ? (alert.severity === 'critical' ? 2 : 1) : 0,
    atSeconds: alert.atSeconds,
    mark: (cleared ? sign[1] : sign[0]) ?? '',
    deviceId: alert.deviceId,
    text: alert.message,
    paint: cleared ? 'dim' : alert.severity === 'critical' ? 'red' : 'yellow',
  };
}

function eventNews(event: WatchEvent): News[] {
  if (event.type === 'appeared') {
    const text = `appeared: ${event.device.name}`;
    return [{ ...happened(event), mark: '+', text, paint: 'green' }];
  }
  if (event.type === 'vanished') {
    const text = `vanished: ${event.reason}`;
    return [{ ...happened(event), mark: '-', text, paint: 'red' }];
  }
  return [];
}

function happened(event: {
  readonly atSeconds: number;
  readonly device: { readonly id: string };
}): Pick<News, 'rank' | 'atSeconds' | 'deviceId'> {
  return { rank: 0, atSeconds: event.atSeconds, deviceId: event.device.id };
}

/** The first that have room, each as a whole; the very first in any case. */
export function wholeItems(
  items: readonly (readonly Span[][])[],
  rows: number,
): { readonly lines: Span[][]; readonly shown: number } {
  const lines: Span[][] = [];
  let shown = 0;
  for (const item of items) {
    if (lines.length > 0 && lines.length + item.length > rows) break;
    lines.push(...item);
    shown++;
  }
  return { lines, shown };
}
