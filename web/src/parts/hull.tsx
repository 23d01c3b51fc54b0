import { formatBytes } from '../../../src/units/bytes.js';
import { isKnown } from '../../../src/units/known.js';
import type { DeviceView } from '../api/types.js';
import { plainHue } from '../charts/hues.js';
import { board } from '../state/live/live.js';
import { useStore } from '../state/live/store.js';
import { usedOfReserved } from './words.js';

const left = 18;
const right = 132;
const deck = 10;
const keel = 166;
/** Both sides straight, a round bilge, a flat bottom. */
const outline = `M${left} ${deck}V136Q${left} ${keel} 48 ${keel}H102Q${right} ${keel} ${right} 136V${deck}`;
/** Lower layers have no room for a number. */
const leastForText = 13;

function y(share: number): number {
  return Math.round((keel - share * (keel - deck)) * 10) / 10;
}

/** A device as a hull in the water: reservations stacked inside, what is used outside. */
export function Hull({ device }: { device: DeviceView }) {
  const layout = hullLayout(device);
  const id = `hull-${device.id.replace(':', '-')}`;
  return (
    <svg class="hull" viewBox="0 0 150 176" role="img" aria-label={hullWords(device, layout)}>
      <defs>
        <clipPath id={id}>
          <path d={`${outline}Z`} />
        </clipPath>
        <pattern
          id={`${id}-hatch`}
          width="6"
          height="6"
          patternUnits="userSpaceOnUse"
          patternTransform="rotate(45)"
        >
          <rect class="hatch" width="2" height="6" />
        </pattern>
      </defs>
      {layout.water !== undefined && <path class="water" d={waterPath(y(layout.water))} />}
      <path class="inside" d={`${outline}Z`} />
      <g clip-path={`url(#${id})`}>
        {layout.layers.map((layer) => (
          <LayerShape
            key={`${layer.kind} ${layer.jobId}`}
            layer={layer}
            hatch={`url(#${id}-hatch)`}
            lineY={y(layout.line ?? -1)}
          />
        ))}
      </g>
      {layout.room !== undefined && (
        <Room from={y(layout.room.from)} to={y(layout.room.to)} bytes={device.availableBytes} />
      )}
      <path class="outline" d={outline} />
      {layout.line !== undefined && <LoadLine at={y(layout.line)} share={layout.line} />}
    </svg>
  );
}

function LayerShape(props: { layer: Layer; hatch: string; lineY: number }) {
  const { layer, hatch, lineY } = props;
  const top = y(layer.to);
  const height = Math.max(0.5, y(layer.from) - top);
  const wide = right - left;
  // The load line would strike it out.
  const hasRoom = height >= leastForText && Math.abs(top + height / 2 - lineY) > 8;
  const number = layer.jobId === '' ? '' : `#${layer.jobId}`;
  return (
    <g class={`layer ${layer.kind} ${hueClass(layer.jobId)}`}>
      <rect class="reserved" x={left} y={top} width={wide} height={height} />
      {layer.filled !== undefined && layer.kind !== 'other' && (
        <rect
          class="used"
          x={left}
          y={top}
          width={Math.round(wide * layer.filled * 10) / 10}
          height={height}
        />
      )}
      {layer.kind === 'releasing' && (
        <rect x={left} y={top} width={wide} height={height} fill={hatch} />
      )}
      {layer.over && <rect class="beyond" x={left} y={top} width={wide} height={height} />}
      <line class="seam" x1={left} x2={right} y1={top} y2={top} />
      {hasRoom && number !== '' && (
        <text x="75" y={top + height / 2 + 3.6}>
          {number}
        </text>
      )}
    </g>
  );
}

/** Draws the bytes that can still be reserved, if there is space for the words. */
function Room({ from, to, bytes }: { from: number; to: number; bytes: number }) {
  const middle = (from + to) / 2;
  if (from - to < leastForText) return null;
  if (from - to < 2.2 * leastForText) {
    return (
      <g class="room">
        <text x="75" y={middle + 4}>
          {formatBytes(bytes)} left
        </text>
      </g>
    );
  }
  return (
    <g class="room">
      <text x="75" y={middle}>
        {formatBytes(bytes)}
      </text>
      <text x="75" y={middle + 11}>
        available to jobs
      </text>
    </g>
  );
}

function LoadLine({ at, share }: { at: number; share: number }) {
  return (
    <g class="load-line">
      <line x1="3" x2="147" y1={at} y2={at} />
      <circle cx={left} cy={at} r="6.5" />
      <line x1="3" x2="33" y1={at} y2={at} />
      <text x={right - 5} y={at - 3.5}>
        {Math.round(share * 100)} %
      </text>
    </g>
  );
}

/** The surface of the water, with a little swell. */
function waterPath(level: number): string {
  const swell = [0, 1, 2, 3, 4].map(() => 'q7.5 -2.4 15 0t15 0').join('');
  return `M0 ${level}${swell}V176H0Z`;
}

/** Describes the picture, for people who cannot see it. */
function hullWords(device: DeviceView, { layers }: HullLayout): string {
  const { id, usedBytes, totalBytes, loadLineBytes, availableBytes, provenance } = device;
  const jobs = layers.filter(({ kind }) => kind === 'job');
  const stacked = jobs.map(({ name, bytes }) => `${name} ${formatBytes(bytes)}`).join(', ');
  return [
    `${id}: ${formatBytes(usedBytes)} of ${formatBytes(totalBytes)} used, ${provenance}.`,
    `Load line at ${formatBytes(loadLineBytes)}.`,
    stacked === '' ? 'No job holds a reservation.' : `Reserved: ${stacked}.`,
    `${formatBytes(availableBytes)} available to jobs.`,
  ].join(' ');
}

/** The class that gives a job its colour, the same all over the page. */
function hueClass(jobId: string): string {
  return `hue-${board.get().hues.get(jobId) ?? plainHue(jobId)}`;
}

export function useHue(jobId: string): string {
  return `hue-${useStore(board, ({ hues }) => hues.get(jobId)) ?? plainHue(jobId)}`;
}

/** More would make one card taller than its neighbours. */
const jobsShown = 4;

/** Lists the contents of the hull from the top down, as in the picture beside it. */
export function HullList({ device, onRequest }: { device: DeviceView; onRequest: boolean }) {
  const stacked = device.reservations
    .toSorted((one, other) => Number(one.isReleasing) - Number(other.isReleasing))
    .toReversed();
  const shown = stacked.slice(0, jobsShown);
  const more = stacked.slice(jobsShown);
  return (
    <ul class="hull-list">
      {shown.map(({ jobId, name, bytes, usedBytes, isReleasing }) => (
        <li key={jobId} class={hueClass(jobId)}>
          <i class={isReleasing ? 'swatch releasing' : 'swatch'} />
          <a href={`#/job/${jobId}`} title={name}>
            {name}
          </a>
          <span class="figure">
            {isReleasing
              ? `${formatBytes(bytes)} being released`
              : usedOfReserved(usedBytes, bytes)}
          </span>
        </li>
      ))}
      {more.length > 0 && (
        <li>
          <i class="swatch none" />
          <span class="soft">{more.length} more</span>
          <span class="figure">{formatBytes(more.reduce((sum, { bytes }) => sum + bytes, 0))}</span>
        </li>
      )}
      {stacked.length === 0 && <li class="nobody">{emptyWords(device, onRequest)}</li>}
      {isKnown(device.otherProcessesBytes) && device.otherProcessesBytes > 0 && (
        <li>
          <i class="swatch other" />
          <span title="Processes that are not jobs of this server">other processes</span>
          <span class="figure">{formatBytes(device.otherProcessesBytes)}</span>
        </li>
      )}
    </ul>
  );
}

function emptyWords({ takesJobs }: DeviceView, onRequest: boolean): string {
  if (!takesJobs) return 'Takes no jobs.';
  return onRequest ? 'Takes jobs that ask for no GPU.' : 'No job runs here.';
}

/** A layer of what lies in the hull, in shares of the capacity counted from the keel. */
export interface Layer {
  readonly kind: 'other' | 'job' | 'releasing';
  readonly jobId: string;
  readonly name: string;
  readonly from: number;
  readonly to: number;
  readonly bytes: number;
  /** How much of the layer is really in use, 0 to 1; undefined where it is not known. */
  readonly filled: number | undefined;
  /** It holds more than was promised to it. */
  readonly over: boolean;
}

export interface HullLayout {
  readonly layers: readonly Layer[];
  /** Position of the line, as a share of the capacity; undefined if the capacity is unknown. */
  readonly line: number | undefined;
  /** How deep it lies in the water: what the device says is used. */
  readonly water: number | undefined;
  /** Room between reservations and the line. */
  readonly room: { readonly from: number; readonly to: number } | undefined;
}

const nothing: HullLayout = { layers: [], line: undefined, water: undefined, room: undefined };

/** Stacks the contents of a device's hull: other processes at the bottom, then jobs, then memory being released. */
export function hullLayout(device: DeviceView): HullLayout {
  const total = device.totalBytes;
  if (!isKnown(total) || total <= 0) return nothing;
  const layers: Layer[] = [];
  let top = 0;
  const add = (layer: Omit<Layer, 'from' | 'to'>): void => {
    const to = Math.min(1, top + layer.bytes / total);
    layers.push({ ...layer, from: top, to });
    top = to;
  };
  if (isKnown(device.otherProcessesBytes) && device.otherProcessesBytes > 0) {
    const bytes = device.otherProcessesBytes;
    add({ kind: 'other', jobId: '', name: 'other', bytes, filled: 1, over: false });
  }
  const stacked = [
    ...device.reservations.filter(({ isReleasing }) => !isReleasing),
    ...device.reservations.filter(({ isReleasing }) => isReleasing),
  ];
  for (const { jobId, name, bytes, usedBytes, isReleasing } of stacked) {
    const used = isKnown(usedBytes) ? usedBytes : undefined;
    add({
      kind: isReleasing ? 'releasing' : 'job',
      jobId,
      name,
      bytes,
      filled: used === undefined ? undefined : bytes > 0 ? Math.min(1, used / bytes) : 0,
      over: used !== undefined && used > bytes,
    });
  }
  // What returns but belongs to no job that is still listed.
  const listed = stacked.filter(({ isReleasing }) => isReleasing);
  const rest = device.releasingBytes - listed.reduce((sum, { bytes }) => sum + bytes, 0);
  if (rest > 0) {
    const some = { jobId: '', name: 'releasing', bytes: rest, filled: undefined, over: false };
    add({ kind: 'releasing', ...some });
  }
  const line = device.loadLineBytes / total;
  const to = Math.min(line, top + device.availableBytes / total);
  return {
    layers,
    line,
    water: isKnown(device.usedBytes) ? Math.min(1, device.usedBytes / total) : undefined,
    room: to > top ? { from: top, to } : undefined,
  };
}
