import type { StepReading } from '../../batches/sizes/keep-below.js';
import type { MeasuredStep, SpillBlock } from '../../estimate/spill-decision.js';
import type { Known } from '../../units/known.js';
import { type Hook, hooks } from '../ladder/in-process.js';
import { type ClimbedRung, rungs } from '../types.js';
import {
  type BufferFigures,
  bufferFields,
  type ForecastMessage,
  type FromSdk,
  type LoopMessage,
  type SpillMessage,
  type WorkState,
} from './messages.js';

/** The version of this language; a newer SDK says so in its hello, and is still understood. */
const bridgeVersion = 1;
/** Larger than any cluster; a number beyond it is a mistake. */
const maxRanks = 65_536;
/** A step for each of some models and a few functions; a program with more is heard as one. */
export const maxWorks = 64;
/** As many sizes as the SDK keeps of one work. */
const maxSizes = 16;
/** Its name and a number; a longer one is cut. */
const longestName = 128;
/** Paths and messages; the longest real ones are below this. */
const longestText = 4096;
/** Deeper than any model that is trained; the rule tries each number of them. */
const maxBlocks = 2048;
/** One line for people. */
const longestLine = 300;

/** What a document says, or undefined where it says nothing that we know. */
export function readMessage(document: unknown): FromSdk | undefined {
  const read = readerOf(document);
  if (read === undefined) return undefined;
  const { get, count, bytes, text, wordOrNull, list } = read;
  switch (get('type')) {
    case 'hello': {
      const rank = count('rank', maxRanks) ?? 0;
      return {
        type: 'hello',
        version: count('version') ?? bridgeVersion,
        pid: count('pid') ?? 0,
        rank,
        world: Math.max(1, count('world', maxRanks) ?? 1, rank + 1),
        torch: wordOrNull('torch'),
        hooks: readHooks(list('hooks') ?? []),
        device: text('device'),
        peakBytes: bytes('peakBytes'),
        works: (list('works') ?? []).slice(0, maxWorks).flatMap(readWork),
        spill: get('spill') === true,
      };
    }
    case 'figures': {
      const at = get('at');
      return {
        type: 'figures',
        at: typeof at === 'number' ? at : 0,
        allocatedBytes: bytes('allocatedBytes'),
        reservedBytes: bytes('reservedBytes'),
        peakAllocatedBytes: bytes('peakAllocatedBytes'),
        peakReservedBytes: bytes('peakReservedBytes'),
        freeBytes: bytes('freeBytes'),
        totalBytes: bytes('totalBytes'),
        phase: text('phase'),
        ...readBuffers(get('buffers')),
      };
    }
    case 'oom': {
      const id = get('id');
      const microbatch = count('microbatch') ?? 0;
      const given = list('hooks');
      return {
        type: 'oom',
        id: typeof id === 'number' || typeof id === 'string' ? id : 0,
        rank: count('rank', maxRanks) ?? 0,
        round: count('round'),
        phase: text('phase'),
        kind: text('kind'),
        message: text('message'),
        askedBytes: bytes('askedBytes'),
        microbatch,
        batch: count('batch') ?? microbatch,
        peakBytes: bytes('peakBytes'),
        snapshot: wordOrNull('snapshot'),
        who: read.who(),
        hooks: given === undefined ? undefined : readHooks(given),
        uncaught: get('uncaught') === true,
      };
    }
    case 'measured':
      return { type: 'measured', sizes: readSizes(read) };
    case 'forecast':
      return readForecast(read);
    case 'step': {
      const [number, microbatch] = [count('number'), count('microbatch')];
      if (number === undefined || microbatch === undefined || microbatch < 1) return undefined;
      const batch = Math.max(microbatch, count('batch') ?? 0);
      const training = get('training') !== false;
      return { type: 'step', number, microbatch, batch, training, ...readReached(read) };
    }
    case 'loop': {
      const number = count('number');
      return number === undefined ? undefined : { type: 'loop', number, ...readReached(read) };
    }
    case 'saved':
      return { type: 'saved', steps: count('steps') ?? 0 };
    case 'barrier': {
      const [round, rank, ok] = [count('round'), count('rank', maxRanks), get('ok')];
      if (round === undefined || rank === undefined || typeof ok !== 'boolean') return undefined;
      return { type: 'barrier', round, rank, ok };
    }
    case 'climbed': {
      const rung = rungNames.find((name) => name === get('rung'));
      if (rung === undefined) return undefined;
      const secondsAgo = read.seconds('secondsAgo') ?? 0;
      return { type: 'climbed', rung, why: text('why'), secondsAgo };
    }
    case 'spill':
      return readSpill(read);
    case 'blocks': {
      const id = get('id');
      const isId = typeof id === 'number' || typeof id === 'string';
      const measured = readMeasuredStep(read);
      if (!isId || measured === undefined) return undefined;
      return { type: 'blocks', id, limitBytes: bytes('limitBytes'), measured };
    }
    case 'limit-set': {
      const limitBytes = count('bytes');
      if (limitBytes === undefined) return undefined;
      const [allocatedBytes, order] = [bytes('allocatedBytes'), count('order')];
      return { type: 'limit-set', bytes: limitBytes, allocatedBytes, order };
    }
    case 'bye':
      return { type: 'bye' };
    default:
      return undefined;
  }
}

/** Undefined where a figure is missing: half of them would say something else. */
function readSpill({ get, count, seconds, wordOrNull }: Reader): SpillMessage | undefined {
  const [bytesOut, bytesBack] = [count('bytesOut'), count('bytesBack')];
  const [recomputedSeconds, stallSeconds] = [seconds('recomputedSeconds'), seconds('stallSeconds')];
  const bytesKnown = bytesOut !== undefined && bytesBack !== undefined;
  if (!bytesKnown || recomputedSeconds === undefined || stallSeconds === undefined) {
    return undefined;
  }
  const figures = { bytesOut, bytesBack, recomputedSeconds, stallSeconds };
  const aside = wordOrNull('aside', longestLine);
  return { type: 'spill', ...figures, active: get('active') === true, aside };
}

/** All of its figures, or none: a step with a hole in it would be planned too small. */
function readMeasuredStep({ count, seconds, list }: Reader): MeasuredStep | undefined {
  const blocks = list('blocks');
  const read = blocks?.slice(0, maxBlocks).flatMap(readBlock);
  if (blocks === undefined || read?.length !== blocks.length) return undefined;
  const counts = stepCounts.map((name) => count(name));
  const [otherBytes, fixedBytes, optimizerBytes, temporaryBytes, lossBytes, hostBytes] = counts;
  // Rates and times are numbers of the same kind: none below 0, none without end.
  const numbers = stepNumbers.map((name) => seconds(name));
  const [outBytesPerSecond = 0, backBytesPerSecond = 0, stepSeconds = 0] = numbers;
  const isMissing =
    otherBytes === undefined ||
    fixedBytes === undefined ||
    optimizerBytes === undefined ||
    temporaryBytes === undefined ||
    lossBytes === undefined ||
    hostBytes === undefined;
  if (isMissing || !numbers.every((number) => number !== undefined && number > 0)) return undefined;
  return {
    blocks: read,
    otherBytes,
    fixedBytes,
    optimizerBytes,
    temporaryBytes,
    lossBytes,
    hostBytes,
    outBytesPerSecond,
    backBytesPerSecond,
    stepSeconds,
  };
}

const stepCounts = [
  'otherBytes',
  'fixedBytes',
  'optimizerBytes',
  'temporaryBytes',
  'lossBytes',
  'hostBytes',
] as const;
const stepNumbers = ['outBytesPerSecond', 'backBytesPerSecond', 'stepSeconds'] as const;

function readBlock(document: unknown): readonly SpillBlock[] {
  const block = readerOf(document);
  const [name, size] = [block?.wordOrNull('name', longestText) ?? null, block?.count('bytes')];
  const seconds = block?.seconds('seconds');
  if (name === null || size === undefined || seconds === undefined) return [];
  return [{ name, bytes: size, seconds }];
}

/** What every step tells. */
function readReached({ get, who, bytes }: Reader): Pick<LoopMessage, 'who' | 'peakBytes' | 'loss'> {
  const value = get('loss');
  const loss = typeof value === 'number' && Number.isFinite(value) ? value : 'unknown';
  return { who: who(), peakBytes: bytes('peakBytes'), loss };
}

const rungNames: readonly ClimbedRung['rung'][] = [...rungs, 'grow-back'];

function readWork(document: unknown): readonly WorkState[] {
  const read = readerOf(document);
  const microbatch = read?.count('microbatch') ?? 0;
  if (read === undefined || microbatch < 1) return [];
  const sizes = readSizes(read);
  return [
    {
      who: read.who(),
      steps: read.count('steps') ?? 0,
      microbatch,
      batch: Math.max(microbatch, read.count('batch') ?? 0),
      sizes,
      smallestFailed: read.bytes('smallestFailed'),
    },
  ];
}

/** Undefined where it is not known what would be too large. */
function readForecast(read: Reader): ForecastMessage | undefined {
  const { count, list } = read;
  const [id, step] = [read.get('id'), count('step')];
  const [microbatch, baseBytes] = [count('microbatch') ?? 0, count('baseBytes')];
  if (step === undefined || microbatch < 1 || baseBytes === undefined) return undefined;
  return {
    type: 'forecast',
    id: typeof id === 'number' || typeof id === 'string' ? id : 0,
    who: read.who(),
    step,
    microbatch,
    batch: Math.max(microbatch, count('batch') ?? 0),
    baseBytes,
    limitBytes: read.bytes('limitBytes'),
    readings: (list('readings') ?? []).slice(-maxSizes).flatMap(readReading),
    sizes: readSizes(read),
  };
}

function readReading(document: unknown): readonly StepReading[] {
  const count = readerOf(document)?.count;
  const [step, microbatch] = [count?.('step'), count?.('microbatch') ?? 0];
  const [baseBytes, peakBytes] = [count?.('baseBytes'), count?.('peakBytes')];
  if (step === undefined || baseBytes === undefined || peakBytes === undefined) return [];
  return microbatch < 1 ? [] : [{ step, microbatch, baseBytes, peakBytes }];
}

function readSizes(read: Reader): WorkState['sizes'] {
  return (read.list('sizes') ?? []).slice(0, maxSizes).flatMap((one) => {
    const pair = readerOf(one);
    const [size, peakBytes] = [pair?.count('microbatch') ?? 0, pair?.count('peakBytes')];
    return size < 1 || peakBytes === undefined ? [] : { microbatch: size, peakBytes };
  });
}

type Reader = NonNullable<ReturnType<typeof readerOf>>;

/** All of its figures, or none. */
function readBuffers(document: unknown): { readonly buffers?: BufferFigures } {
  const count = readerOf(document)?.count;
  const values = bufferFields.map((name) => count?.(name));
  const [items, hits, misses, evictions, memoryBytes, fileBytes, rawBytes] = values;
  if (
    items === undefined ||
    hits === undefined ||
    misses === undefined ||
    evictions === undefined ||
    memoryBytes === undefined ||
    fileBytes === undefined ||
    rawBytes === undefined
  ) {
    return {};
  }
  return { buffers: { items, hits, misses, evictions, memoryBytes, fileBytes, rawBytes } };
}

function readHooks(named: readonly unknown[]): readonly Hook[] {
  return hooks.filter((hook) => named.includes(hook));
}

/** Fields of a document, each only where it is what it should be. */
function readerOf(document: unknown) {
  if (typeof document !== 'object' || document === null) return undefined;
  const get = (name: string): unknown => Reflect.get(document, name);
  const count = (name: string, most = Number.MAX_SAFE_INTEGER): number | undefined => {
    const value = get(name);
    const isCount = typeof value === 'number' && Number.isSafeInteger(value);
    return isCount && value >= 0 && value <= most ? value : undefined;
  };
  const wordOrNull = (name: string, most = longestText): string | null => {
    const value = get(name);
    return typeof value === 'string' ? value.slice(0, most) : null;
  };
  return {
    get,
    count,
    wordOrNull,
    bytes: (name: string): Known<number> => count(name) ?? 'unknown',
    seconds: (name: string): number | undefined => {
      const value = get(name);
      return typeof value === 'number' && value >= 0 && Number.isFinite(value) ? value : undefined;
    },
    text: (name: string): string => wordOrNull(name) ?? 'unknown',
    who: (): string => wordOrNull('who', longestName) ?? '',
    list: (name: string): readonly unknown[] | undefined => {
      const value = get(name);
      return Array.isArray(value) ? value : undefined;
    },
  };
}
