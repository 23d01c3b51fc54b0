import { isOnRequest } from '../../../src/jobs/placement.js';
import { count, etaWords } from '../../../src/report/words.js';
import { formatBytes } from '../../../src/units/bytes.js';
import { isKnown } from '../../../src/units/known.js';
import { risks } from '../../../src/watch/types.js';
import type { DeviceView } from '../api/types.js';
import type { Counts } from '../state/live/board.js';
import { board } from '../state/live/live.js';
import { useStore } from '../state/live/store.js';
import { ProvenanceTag } from './notes.js';

/** The one thing to know, and the sums. */
export function Lede() {
  const devices = useStore(board, (now) => now.devices);
  const counts = useStore(board, (now) => now.counts);
  const loaded = useStore(board, (now) => now.loaded);
  if (!loaded || devices.length === 0) return null;
  const headline = headlineOf(devices, counts);
  const forJobs = devicesForJobs(devices);
  const sum = (bytes: (device: (typeof devices)[number]) => number): string =>
    formatBytes(forJobs.reduce((total, device) => total + bytes(device), 0));
  return (
    <div class="lede-block">
      <p class={`lede ${headline.level}`}>
        {headline.text} {headline.estimated && <ProvenanceTag from="estimated" />}
      </p>
      <dl class="facts">
        <div>
          <dt>Running</dt>
          <dd>{counts.running.toLocaleString('en-US')}</dd>
        </div>
        <div>
          <dt>Waiting</dt>
          <dd>{counts.waiting.toLocaleString('en-US')}</dd>
        </div>
        <div>
          <dt>Memory</dt>
          <dd>{sum(({ totalBytes }) => (isKnown(totalBytes) ? totalBytes : 0))}</dd>
        </div>
        <div>
          <dt>Used</dt>
          <dd>{sum(({ usedBytes }) => (isKnown(usedBytes) ? usedBytes : 0))}</dd>
        </div>
        <div>
          <dt>Reserved</dt>
          <dd>{reservedWords(devices)}</dd>
        </div>
        <div>
          <dt>Available to jobs</dt>
          <dd>{sum(({ availableBytes }) => availableBytes)}</dd>
        </div>
        <div>
          <dt class="aside">Figures are</dt>
          <dd>
            {[...new Set(forJobs.map(({ provenance }) => provenance))].map((from) => (
              <ProvenanceTag key={from} from={from} />
            ))}
          </dd>
        </div>
      </dl>
    </div>
  );
}

/** Words for the reserved bytes: on the devices of automatic placement, and on the host for jobs that ask for it. */
export function reservedWords(devices: readonly DeviceView[]): string {
  const onRequest = reservedOn(devices.filter((device) => isOnRequest(device, devices)));
  const usual = reservedOn(devices) - onRequest;
  if (onRequest === 0) return formatBytes(usual);
  const onHost = `${formatBytes(onRequest)} on the host`;
  return usual === 0 ? onHost : `${formatBytes(usual)}, and ${onHost}`;
}

function reservedOn(devices: readonly DeviceView[]): number {
  return devices.reduce((total, { reservedBytes }) => total + reservedBytes, 0);
}

export interface Headline {
  readonly level: 'fine' | 'warning' | 'critical';
  readonly text: string;
  /** It rests on a forecast. */
  readonly estimated: boolean;
}

/** The one thing to know about the machine now: what is about to happen, before what is. */
export function headlineOf(devices: readonly DeviceView[], counts: Counts): Headline {
  const worst = devices
    .filter(({ forecast }) => typeof forecast.etaSeconds === 'number' && riskOf(forecast.risk) >= 2)
    .toSorted((one, other) => riskOf(other.forecast.risk) - riskOf(one.forecast.risk))[0];
  if (worst !== undefined) {
    const { id, forecast } = worst;
    const level = riskOf(forecast.risk) >= 3 ? 'critical' : 'warning';
    return {
      level,
      text:
        forecast.etaSeconds === 0
          ? `${id} is full.`
          : `${id} is expected to be full in ${etaWords(forecast) ?? 'unknown'}.`,
      estimated: true,
    };
  }
  const forJobs = devicesForJobs(devices);
  const deep = forJobs.find(
    ({ usedBytes, loadLineBytes }) => isKnown(usedBytes) && usedBytes > loadLineBytes,
  );
  if (deep !== undefined && isKnown(deep.usedBytes)) {
    const beyond = formatBytes(deep.usedBytes - deep.loadLineBytes);
    return {
      level: 'warning',
      text: `${deep.id} is ${beyond} above its load line.`,
      estimated: false,
    };
  }
  const afloat =
    forJobs.length === 1
      ? `${forJobs[0]?.id ?? ''} is below its load line.`
      : `All ${count(forJobs.length, 'device')} are below their load line.`;
  return { level: 'fine', text: `${afloat} ${jobWords(counts)}`, estimated: false };
}

/** The devices that jobs are sent to by themselves: the host only where no GPU takes any. */
function devicesForJobs(devices: readonly DeviceView[]): readonly DeviceView[] {
  return devices.filter((device) => device.takesJobs && !isOnRequest(device, devices));
}

function jobWords({ running, waiting }: Counts): string {
  if (running === 0 && waiting === 0) return 'No job runs or waits.';
  const runs = running === 1 ? '1 job runs' : `${running.toLocaleString('en-US')} jobs run`;
  const waits = waiting === 1 ? '1 waits' : `${waiting.toLocaleString('en-US')} wait`;
  return `${runs}, ${waiting === 0 ? 'none waits' : waits}.`;
}

function riskOf(risk: string): number {
  return risks.findIndex((one) => one === risk);
}
