import {
  fsdpStrategies,
  type Parallel,
  type ParallelMethod,
  parallelWays,
  plainPrecisions,
  uncountedWays,
} from '../../estimate/parallel.js';
import { Failure } from '../../failure.js';
import type { RequestField, RequestWording } from './wording.js';

/** Fields of a request that spread a job over GPUs; a plan takes `gpus` and `offload` as well. */
export const parallelFields = [
  'parallel',
  'tp',
  'nodes',
  'gatherPrecision',
  'reducePrecision',
  'reshard',
  'fsdpStrategy',
  'origParams',
  'bucketMb',
  'bucketView',
] as const satisfies readonly RequestField[];

type Read = <T>(field: RequestField, reader: FieldReader<T>) => T | undefined;

/** The most ranks that a trace pretends (`LARGEST_WORLD` in Python). */
const maxRanks = 2 ** 20;

/** How many GPUs share a job. */
export const readGpus: FieldReader<number> = (value, field, wording) => {
  const gpus = readCount(value, field, wording);
  if (gpus <= maxRanks) return gpus;
  throw badUsage(
    `${gpus} GPUs are more than can be traced.`,
    `${wording.name(field)} takes at most ${maxRanks} of them.`,
  );
};

/** The same fields with every value checked. */
export type CheckedParallel = ReturnType<typeof checkParallel>;

export function checkParallel(read: Read) {
  return {
    parallel: read('parallel', readMethod),
    tp: read('tp', readCount),
    nodes: read('nodes', readCount),
    gatherPrecision: read('gatherPrecision', oneOf(plainPrecisions)),
    reducePrecision: read('reducePrecision', oneOf(plainPrecisions)),
    reshard: read('reshard', readFlag),
    fsdpStrategy: read('fsdpStrategy', oneOf(fsdpStrategies)),
    origParams: read('origParams', readFlag),
    bucketMb: read('bucketMb', readCount),
    bucketView: read('bucketView', readFlag),
  };
}

/** A way to spread a job over GPUs; one that is known and not counted has an error of its own. */
const readMethod: FieldReader<ParallelMethod> = (value, field, wording) => {
  const text = readText(value, field, wording);
  if (uncountedWays.some((one) => one === text)) throw notCounted(text, wording);
  return oneOf(parallelWays)(text, field, wording);
};

function notCounted(way: string, { name }: RequestWording): Failure {
  const meanings: Readonly<Record<string, string>> = {
    pp: 'Pipeline',
    pipeline: 'Pipeline',
    cp: 'Context',
    context: 'Context',
    sp: 'Sequence',
    ep: 'Expert',
    expert: 'Expert',
  };
  return new Failure({
    kind: 'input',
    code: 'not-counted',
    fact: `${meanings[way] ?? way} parallelism is not counted.`,
    next: `Measure it on its GPUs, or take another ${name('parallel')}: ${parallelWays.join(', ')}.`,
    field: 'parallel',
  });
}

const isFsdp = (way: ParallelMethod) => way === 'fsdp1' || way === 'fsdp2' || way === 'hsdp';
const gathers = (way: ParallelMethod) => isFsdp(way) || way === 'tp';

/** The settings that only some ways have. */
const fits: readonly (readonly [keyof CheckedParallel, (way: ParallelMethod) => boolean])[] = [
  ['gatherPrecision', gathers],
  ['reducePrecision', gathers],
  ['reshard', gathers],
  ['fsdpStrategy', isFsdp],
  ['origParams', (way) => way === 'fsdp1'],
  ['bucketMb', (way) => way === 'ddp'],
  ['bucketView', (way) => way === 'ddp'],
  ['tp', (way) => way === 'fsdp2' || way === 'tp'],
];

/** How a job is spread over GPUs; undefined where it is not. */
export function parallelOf(
  checked: CheckedParallel & {
    readonly gpus?: number | undefined;
    readonly offload?: string | undefined;
    readonly mode?: string | undefined;
  },
  wording: RequestWording,
): Parallel | undefined {
  const { name, example } = wording;
  const { parallel: way, gpus = 1, tp, offload } = checked;
  const nodes = checked.nodes ?? (way === 'hsdp' ? 2 : undefined);
  if (way === undefined) {
    const field = [...parallelFields].find((one) => checked[one] !== undefined);
    if (field === undefined && gpus === 1) return undefined;
    throw badUsage(
      field === undefined
        ? `How ${gpus} GPUs share the job was not said.`
        : `${name(field)} is for a job on several GPUs.`,
      `Add ${name('parallel')}, such as ${example('parallel', 'fsdp2')}.`,
    );
  }
  if (gpus < 2) {
    throw badUsage(
      `${example('parallel', way)} needs at least two GPUs.`,
      `Say how many, such as ${example('gpus', 8)}.`,
    );
  }
  if (checked.mode === 'infer') {
    throw badUsage('Only training is counted on several GPUs.', `Leave ${name('parallel')} out.`);
  }
  if (offload !== undefined && offload !== 'optimizer') {
    throw badUsage(
      `${example('offload', offload)} is not counted on several GPUs.`,
      `It takes ${example('offload', 'optimizer')}.`,
    );
  }
  const [odd] = fits.find(([field, fit]) => checked[field] !== undefined && !fit(way)) ?? [];
  if (odd !== undefined) {
    throw badUsage(`${name(odd)} means nothing with ${example('parallel', way)}.`, 'Leave it out.');
  }
  const groups = (tp ?? 1) * (nodes ?? 1);
  if (gpus % groups !== 0 || (tp ?? 1) > gpus) {
    throw badUsage(
      `${gpus} GPUs cannot be shared out evenly by ${groups}.`,
      `Choose ${name('tp')} and ${name('nodes')} so that they divide ${name('gpus')}.`,
    );
  }
  // With one machine there is nothing to copy to, with one GPU each nothing to shard over.
  if (way === 'hsdp' && nodes !== undefined && (nodes < 2 || gpus / nodes < 2)) {
    throw badUsage(
      `${example('parallel', way)} needs at least two machines with two GPUs each, not ${gpus} GPUs on ${nodes}.`,
      `Choose other ${name('gpus')} and ${name('nodes')}, or take ${example('parallel', nodes < 2 ? 'fsdp2' : 'ddp')}.`,
    );
  }
  return {
    way,
    gpus,
    tensorParallel: tp,
    nodes,
    gatherPrecision: checked.gatherPrecision,
    reducePrecision: checked.reducePrecision,
    reshard: checked.reshard,
    fsdpStrategy: checked.fsdpStrategy,
    originalParameters: checked.origParams,
    bucketMb: checked.bucketMb,
    bucketView: checked.bucketView,
    offload,
  };
}

function badUsage(fact: string, next: string): Failure {
  return new Failure({ kind: 'input', code: 'bad-usage', fact, next });
}

/** More than any dimension of a tensor that fits a GPU. */
const largestCount = 2 ** 24;
/** 16 PiB: no machine has as much; what is larger is a slip, and arithmetic stays exact below. */
const largestBytes = 2 ** 54 / 2;
/** Longer than any path a system takes. */
const longestText = 4096;
/** A workload has a handful of arguments. */
const maxArguments = 256;

// Each of these reads one field of a request that came from outside, and names it in its error.

export type FieldReader<T> = (value: unknown, field: RequestField, wording: RequestWording) => T;

/** One of some words, or numbers, as they are written. */
export function oneOf<T extends string | number>(values: readonly T[]): FieldReader<T> {
  return (value, field, wording) => {
    const found = values.find((one) => one === value);
    if (found === undefined) throw wrong(value, field, wording, `It takes ${values.join(', ')}.`);
    return found;
  };
}

export const readCount: FieldReader<number> = (value, field, wording) => {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= largestCount) {
    return value;
  }
  throw wrong(value, field, wording, `It takes a whole number from 1 to ${largestCount}.`);
};

export const readShare: FieldReader<number> = (value, field, wording) => {
  if (typeof value === 'number' && value > 0 && value <= 1) return value;
  throw wrong(value, field, wording, 'It takes a share above 0 and up to 1, such as 0.9.');
};

export const readByteCount: FieldReader<number> = (value, field, wording) => {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= largestBytes) {
    return value;
  }
  throw wrong(value, field, wording, 'It takes a whole number of bytes, such as 25769803776.');
};

/** More parameters than any model has. */
const maxParameters = 1e14;

export const readParameters: FieldReader<number> = (value, field, wording) => {
  if (typeof value === 'number' && Number.isInteger(value)) {
    if (value >= 1 && value <= maxParameters) return value;
  }
  throw wrong(value, field, wording, 'It takes a number of parameters, such as 22000000000.');
};

export const readFlag: FieldReader<boolean> = (value, field, wording) => {
  if (typeof value === 'boolean') return value;
  throw wrong(value, field, wording, 'It takes true or false.');
};

export const readText: FieldReader<string> = (value, field, wording) => {
  // A path with a NUL in it is none to any system.
  if (typeof value === 'string' && value !== '' && value.length <= longestText) {
    if (!value.includes('\0')) return value;
  }
  throw wrong(value, field, wording, `It takes a text of 1 to ${longestText} letters.`);
};

/** The arguments of a script's `workload`, as `name=value`. */
export const readArguments: FieldReader<readonly string[]> = (value, field, wording) => {
  const next = 'It takes names with texts, such as {"layers": "12"}.';
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw wrong(value, field, wording, next);
  }
  const entries: readonly (readonly [string, unknown])[] = Object.entries(value);
  if (entries.length > maxArguments) throw wrong(value, field, wording, next);
  return entries.map(([name, text]) => {
    const isText = typeof text === 'string' && text.length <= longestText && !text.includes('\0');
    if (!isText || !/^[A-Za-z_]\w*$/.test(name)) throw wrong(value, field, wording, next);
    return `${name}=${text}`;
  });
};

function wrong(
  value: unknown,
  field: RequestField,
  wording: RequestWording,
  next: string,
): Failure {
  const shown = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
  return new Failure({
    kind: 'input',
    code: 'bad-field',
    fact: `${wording.name(field)} cannot be "${shown.slice(0, 100)}".`,
    next,
    field,
  });
}
