import type { DeviceInfo, ProcessReading } from '../../device/types.js';
import { formatBytes, MiB } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown, type Known } from '../../units/known.js';
import type { Leak } from '../../watch/types.js';
import { type Advice, bytesSaved, unknownSaving } from './advice.js';

/** One device as it was seen for a while. */
export interface SeenDevice extends DeviceInfo {
  readonly totalBytes: Known<number>;
  readonly usedBytes: Known<number>;
  /** The busiest that it was, 0 to 100. */
  readonly busiestPercent: Known<number>;
  readonly watchedSeconds: number;
  readonly processes: Known<readonly ProcessReading[]>;
  readonly leak: Leak;
  readonly processLeaks: ReadonlyMap<number, Leak>;
  /** What an allocator that reports holds beside its tensors. */
  readonly cachedBytes: Known<number>;
  /** Share of the last 10 s in which tasks stalled on memory, 0 to 100; only the host has it. */
  readonly stalledPercent: Known<number>;
  readonly swapUsedBytes: Known<number>;
}

/** Less is lost in what a context takes. */
const leastHeldBytes = 256 * MiB;
/** Slower growth takes hours to matter, and is seen in noise. */
const leastGrowth = MiB;
const hourSeconds = 3600;
/** Below this, stalls are noise. */
const leastStalled = 5;

/** What to do about one device: what leaks, who holds memory and does nothing, what is full. */
export function deviceAdvice(device: SeenDevice, fullPercent: number): readonly Advice[] {
  return [
    ...growthAdvice(device),
    ...idleAdvice(device),
    ...cacheAdvice(device),
    ...fullAdvice(device, fullPercent),
    ...stallAdvice(device),
  ];
}

function growthAdvice(device: SeenDevice): Advice[] {
  const own = [...device.processLeaks].map(([pid, leak]) => ({ pid, leak }));
  const all = own.length > 0 ? own : [{ pid: undefined, leak: device.leak }];
  return all.flatMap(({ pid, leak }): Advice[] => {
    const { found, bytesPerSecond: rate } = leak;
    if (found === false || !isKnown(rate) || rate < leastGrowth) return [];
    const who = pid === undefined ? device.id : `${nameOf(device, pid)} on ${device.id}`;
    const grows = `${formatBytes(rate)} a second`;
    if (found === 'unknown') {
      const seconds = Math.ceil(device.watchedSeconds + leak.watchSeconds);
      return [
        {
          code: 'growth',
          fact: `${who} grows by ${grows}; whether it is a leak is not known yet.`,
          steps: [`plimsoll optimize --mode quick --watch ${seconds}`],
          saves: unknownSaving,
        },
      ];
    }
    return [
      {
        code: 'leak',
        fact: `${who} leaks ${grows}.`,
        steps: [
          ...(pid === undefined ? [] : [`plimsoll leak --check --pid ${pid} --duration 60`]),
          'tracker = plimsoll.track_leaks(python=True)  # in the program; tracker.check() each step',
        ],
        saves: bytesSaved(Math.min(rate * hourSeconds, roomOf(device)), device, 'estimated'),
      },
    ];
  });
}

/** What a leak can still take: it ends where the device does. */
function roomOf({ totalBytes, usedBytes }: SeenDevice): number {
  if (!isKnown(totalBytes) || !isKnown(usedBytes)) return Number.MAX_SAFE_INTEGER;
  return Math.max(0, totalBytes - usedBytes);
}

/** A process that holds memory of a GPU on which nothing ran may have been forgotten. */
function idleAdvice(device: SeenDevice): Advice[] {
  const { kind, processes, busiestPercent, watchedSeconds } = device;
  if (kind !== 'gpu' || busiestPercent !== 0 || !isKnown(processes)) return [];
  return processes.flatMap(({ pid, usedBytes }): Advice[] => {
    if (!isKnown(usedBytes) || usedBytes < leastHeldBytes) return [];
    const idle = `nothing ran there for ${formatSeconds(watchedSeconds)}`;
    return [
      {
        code: 'idle-process',
        fact: `${nameOf(device, pid)} holds ${formatBytes(usedBytes)} of ${device.id}, and ${idle}.`,
        steps: [releaseStep(device, pid), `kill ${pid}  # only if it is not needed any more`],
        saves: bytesSaved(usedBytes, device),
      },
    ];
  });
}

function releaseStep(device: SeenDevice, pid: number): string {
  const name = nameOf(device, pid);
  if (/ollama/i.test(name)) return 'ollama stop MODEL  # "ollama ps" lists them';
  return 'plimsoll.clean_up(emergency=True)  # in the program, where its models are not in use';
}

function cacheAdvice(device: SeenDevice): Advice[] {
  const { cachedBytes } = device;
  if (!isKnown(cachedBytes) || cachedBytes < leastHeldBytes) return [];
  return [
    {
      code: 'allocator-cache',
      fact: `PyTorch's allocator holds ${formatBytes(cachedBytes)} of ${device.id} that no tensor uses.`,
      steps: ['plimsoll.clean_up()  # in the program'],
      saves: bytesSaved(cachedBytes, device),
    },
  ];
}

function fullAdvice(device: SeenDevice, fullPercent: number): Advice[] {
  const { totalBytes, usedBytes, processes, id } = device;
  if (!isKnown(totalBytes) || !isKnown(usedBytes)) return [];
  const over = usedBytes - (fullPercent / 100) * totalBytes;
  if (over <= 0) return [];
  const [first] = isKnown(processes) ? processes : [];
  const percent = Math.round((usedBytes / totalBytes) * 100);
  const holder =
    first === undefined
      ? ''
      : `; ${nameOf(device, first.pid)} holds the most, ${formatBytes(first.usedBytes)}`;
  return [
    {
      code: 'device-full',
      fact: `${id} is ${percent} % full${holder}.`,
      steps: [
        `plimsoll run --device ${id} --memory ${Math.floor(((fullPercent / 100) * totalBytes) / MiB)}MiB -- COMMAND  # limits a program, and brings it back`,
      ],
      saves: bytesSaved(over, device),
    },
  ];
}

function stallAdvice({ stalledPercent, swapUsedBytes }: SeenDevice): Advice[] {
  if (!isKnown(stalledPercent) || stalledPercent < leastStalled) return [];
  const swapped =
    isKnown(swapUsedBytes) && swapUsedBytes > 0
      ? `, and ${formatBytes(swapUsedBytes)} are swapped out`
      : '';
  return [
    {
      code: 'memory-stalls',
      fact: `Programs waited for host memory in ${Math.round(stalledPercent)} % of the last 10 s${swapped}.`,
      steps: ['plimsoll monitor --devices host  # shows who holds it'],
      saves: {
        kind: 'time',
        lowShare: 0,
        highShare: stalledPercent / 100,
        source: 'measured',
        where: "the kernel's pressure figures",
      },
    },
  ];
}

function nameOf({ processes }: SeenDevice, pid: number): string {
  const found = isKnown(processes) ? processes.find((one) => one.pid === pid) : undefined;
  const name = found === undefined || !isKnown(found.name) ? 'process' : found.name;
  return `${name} (${pid})`;
}
