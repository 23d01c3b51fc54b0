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
import { capitalized } from '../../../../src/units/words.js';
import type { Alert, DeviceView } from '../../api/types.js';
import { type ChartInput, forecastShape, roomAhead } from '../../charts/chart-input.js';
import { ChartBox } from '../../parts/chart-box.js';
import { useNow } from '../../parts/clock.js';
import { Hull, HullList } from '../../parts/hull.js';
import { Lede } from '../../parts/lede.js';
import { Empty, ProvenanceTag } from '../../parts/notes.js';
import { useStaggered } from '../../parts/use-staggered.js';
import { agoWords } from '../../parts/words.js';
import { type AlertEpisode, alertEpisodes } from '../../state/devices/alert-episodes.js';
import { emptyHistory, type UseHistory } from '../../state/devices/use-history.js';
import { alertKey } from '../../state/live/board.js';
import { board, showWindow } from '../../state/live/live.js';
import { useStore } from '../../state/live/store.js';
import { Queue } from './queue.js';

/** The whole machine: devices, then jobs. */
export function Overview() {
  const ids = useStore(board, ({ devices }) => devices.map(({ id }) => id).join(' '));
  const loaded = useStore(board, (now) => now.loaded);
  const devices = ids === '' ? [] : ids.split(' ');
  return (
    <>
      <h1 class="aside">Overview</h1>
      <Lede />
      <section aria-labelledby="devices-title">
        <div class="heading">
          <h2 id="devices-title">Devices</h2>
          <WindowChoice />
        </div>
        {loaded && devices.length === 0 && (
          <Empty title="No device was found." command="plimsoll devices">
            The server sees neither a GPU nor the host's memory. This says what was tried:
          </Empty>
        )}
        <div class={devices.length === 1 ? 'devices single' : 'devices'}>
          {devices.map((id) => (
            <DeviceCard key={id} id={id} />
          ))}
        </div>
      </section>
      <AlertList />
      <Queue />
    </>
  );
}

/** Ten times a second, as often as devices are read. */
const leastMs = 90;

/** One device: its hull, what lies in it, its use over time, and what is forecast. */
function DeviceCard({ id }: { id: string }) {
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

/** Shows the forecast, and the alerts that still hold. */
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

const alertsShown = 4;

/** Lists alerts, the latest first. */
function AlertList() {
  const alerts = useStore(board, (now) => now.alerts);
  const now = useNow();
  const latest = alertEpisodes(alerts).slice(0, alertsShown);
  if (latest.length === 0) return null;
  return (
    <section aria-labelledby="alerts-title">
      <div class="heading">
        <h2 id="alerts-title">Alerts</h2>
      </div>
      <ol class="alerts">
        {latest.map((episode) => (
          <Episode key={alertKey(episode.alert)} {...episode} now={now} />
        ))}
      </ol>
    </section>
  );
}

function Episode({ alert, clearedMs, now }: AlertEpisode & { now: number }) {
  const over = clearedMs !== undefined;
  return (
    <li class={over ? 'cleared' : alert.severity}>
      <span class="mark">{over ? 'over' : alert.severity}</span>
      <span class="when">{agoWords(alert.epochMs, now)}</span>
      <p>
        {alert.message}{' '}
        {over && <small>Over after {formatSeconds((clearedMs - alert.epochMs) / 1000)}.</small>}{' '}
        {alert.provenance === 'simulated' && <ProvenanceTag from="simulated" />}
      </p>
    </li>
  );
}

const windows = [
  { seconds: 60, label: '1 min' },
  { seconds: 300, label: '5 min' },
  { seconds: 3600, label: '1 h' },
  { seconds: 86_400, label: '1 d' },
] as const;

/** How much of the past the charts show. */
function WindowChoice() {
  const chosen = useStore(board, ({ windowSeconds }) => windowSeconds);
  return (
    <fieldset class="segments">
      <legend class="aside">Time shown</legend>
      {windows.map(({ seconds, label }) => (
        <label key={seconds}>
          <input
            type="radio"
            name="window"
            checked={seconds === chosen}
            onChange={() => showWindow(seconds)}
          />
          <span>{label}</span>
        </label>
      ))}
    </fieldset>
  );
}
