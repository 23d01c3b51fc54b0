import { isOnRequest } from '../../../../src/jobs/placement.js';
import {
  forecastWords,
  percentOf,
  percentWords,
  usedOfTotal,
} from '../../../../src/report/words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import { formatSeconds } from '../../../../src/units/durations.js';
import { isKnown } from '../../../../src/units/known.js';
import { capitalized } from '../../../../src/units/sentence.js';
import type { Alert, DeviceView } from '../../api/types.js';
import type { ChartInput } from '../../charts/chart-input.js';
import { forecastShape, roomAhead } from '../../charts/forecast-shape.js';
import { ChartBox } from '../../parts/chart-box.js';
import { Hull } from '../../parts/hull.js';
import { HullList } from '../../parts/hull-list.js';
import { ProvenanceTag } from '../../parts/tags.js';
import { useStaggered } from '../../parts/use-staggered.js';
import { emptyHistory, type UseHistory } from '../../state/devices/use-history.js';
import { board } from '../../state/live/live.js';

/** Ten times a second, as often as devices are read. */
const leastMs = 90;

/** One device: its hull, what lies in it, its use over time, and what is forecast. */
export function DeviceCard({ id }: { id: string }) {
  const [device, history, alerts, readAtMs, onRequest] = useStaggered(
    board,
    (now) =>
      [
        now.devices.find((one) => one.id === id),
        now.histories.get(id),
        now.alerts,
        now.readAtMs,
        isOnRequest({ id }, now.devices),
      ] as const,
    leastMs,
  );
  if (device === undefined) return null;
  const used = history ?? emptyHistory(board.get().windowSeconds);
  const nowMs = used.epochMs.at(-1) ?? readAtMs;
  const input = chartInput(device, used, nowMs, alerts);
  const percent = percentOf(device.usedBytes, device.totalBytes);
  return (
    <article
      class={`device ${device.takesJobs && !onRequest ? '' : 'apart'}`}
      aria-labelledby={`name-${id}`}
    >
      <header>
        <h3 id={`name-${id}`}>{id}</h3>
        <ProvenanceTag from={device.provenance} />
        <b class="percent">{percentWords(percent)}</b>
      </header>
      <p class="use">
        <span>{device.name}</span>
        <span>{usedOfTotal(device.usedBytes, device.totalBytes)} used</span>
      </p>
      <div class="load">
        <Hull device={device} />
        <HullList device={device} onRequest={onRequest} />
      </div>
      <ChartBox input={input} label={chartWords(device, used)} />
      <Outlook device={device} />
    </article>
  );
}

function chartInput(
  device: DeviceView,
  history: UseHistory,
  nowMs: number,
  alerts: readonly Alert[],
): ChartInput {
  const capacity = isKnown(device.totalBytes) ? device.totalBytes : undefined;
  const cone =
    capacity !== undefined && isKnown(device.usedBytes)
      ? forecastShape(device.forecast, {
          ms: nowMs,
          usedBytes: device.usedBytes,
          limitBytes: capacity,
        })
      : undefined;
  const share =
    capacity === undefined ? '' : ` ${percentWords((device.loadLineBytes / capacity) * 100)}`;
  return {
    ...history,
    fromMs: nowMs - history.windowMs,
    toMs: nowMs + roomAhead(history.windowMs, cone),
    nowMs,
    topBytes: (capacity ?? device.loadLineBytes) * 1.06,
    capacityBytes: capacity,
    loadLineBytes: device.loadLineBytes,
    lineLabel: `load line${share}`,
    cone,
    marks: alerts
      .filter(({ deviceId, state }) => deviceId === device.id && state === 'raised')
      .map(({ epochMs, severity }) => ({ atMs: epochMs, look: severity })),
  };
}

/** What is expected, and what was warned of and still holds. */
function Outlook({ device }: { device: DeviceView }) {
  const { forecast, alerts } = device;
  const urgent = forecast.risk === 'high' || forecast.risk === 'critical';
  return (
    <div class="outlook">
      <p class={urgent ? 'urgent' : ''}>{sentence(forecastWords(forecast))}</p>
      {alerts.slice(0, 2).map(({ kind, pid, severity, message }) => (
        <p key={`${kind} ${pid}`} class={`alert ${severity}`}>
          {message}
        </p>
      ))}
    </div>
  );
}

function sentence(words: string): string {
  return `${capitalized(words)}.`;
}

function chartWords(device: DeviceView, history: UseHistory): string {
  const known = history.max.filter((value) => value !== null);
  const low = history.min.filter((value) => value !== null);
  const span = formatSeconds(history.windowMs / 1000);
  if (known.length === 0) return `Memory of ${device.id} over ${span}: no reading yet.`;
  return `Memory of ${device.id} over the last ${span}, ${device.provenance}: between ${formatBytes(Math.min(...low))} and ${formatBytes(Math.max(...known))}, now ${formatBytes(device.usedBytes)}. ${sentence(forecastWords(device.forecast))}`;
}
