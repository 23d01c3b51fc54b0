import { formatSeconds } from '../../../units/durations.js';
import type { Alert, WatchEvent } from '../../../watch/types.js';
import { type Paint, type Span, span, type TextStyle } from '../spans.js';
import { wrapText } from '../wrap-text.js';

interface News {
  readonly atSeconds: number;
  readonly mark: string;
  readonly deviceId: string;
  readonly text: string;
  readonly paint: Paint;
}

/** More than any screen is high; the rest is in the report. */
const maxNews = 100;
/** A sentence of ours has at most three lines at 80 columns; a longer one comes from outside. */
const maxLines = 4;
/** Narrower than this a sentence would be one word a line. */
const leastTextColumns = 20;

/** Alerts, and devices that came and went, newest first with their age. */
export function newsLines(
  model: {
    readonly alerts: readonly Alert[];
    readonly events: readonly WatchEvent[];
    readonly nowSeconds: number;
  },
  columns: number,
  style: TextStyle,
): Span[][] {
  const news = [
    ...model.alerts.map((alert) => alertNews(alert, style)),
    ...model.events.flatMap(eventNews),
  ]
    .toSorted((one, other) => other.atSeconds - one.atSeconds)
    .slice(0, maxNews);
  return news.flatMap(({ atSeconds, mark, deviceId, text, paint }) => {
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

function alertNews(alert: Alert, style: TextStyle): News {
  const cleared = alert.state === 'cleared';
  const sign = style.unicode ? ['▲', '✓'] : ['!', '-'];
  return {
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
    return [
      { atSeconds: event.atSeconds, mark: '+', deviceId: event.device.id, text, paint: 'green' },
    ];
  }
  if (event.type === 'vanished') {
    const text = `vanished: ${event.reason}`;
    return [
      { atSeconds: event.atSeconds, mark: '-', deviceId: event.device.id, text, paint: 'red' },
    ];
  }
  return [];
}
