import { Failure } from '../failure.js';
import { MiB } from '../units/bytes.js';
import { parseSeconds } from '../units/durations.js';

/** The needs stated in variables of other tools; absent ones are not set. */
export interface JobVariables {
  /** `USE_GPU`: whether jobs may use GPUs at all. */
  readonly useGpus?: boolean;
  /** `GPU_DEVICE`: the only GPUs to use, `0`, `0,2` or `gpu:0`. */
  readonly devices?: readonly string[];
  /** `MAX_CONCURRENT_JOBS`: how many run at the same time. */
  readonly maxRunning?: number;
  /** `JOB_TIMEOUT`: how long a job may wait for memory. */
  readonly waitTimeoutSeconds?: number;
  /** `SAFETY_MARGIN_MB`: what stays free on each device; MB as nvidia-smi counts them (MiB). */
  readonly marginBytes?: number;
}

/** More jobs than this on one machine is a slip of the finger. */
const maxJobs = 100_000;
/** A year. */
const longestSeconds = 366 * 86_400;
/** 16 TiB: no device has as much. */
const largestMarginMb = 2 ** 24;

/**
 * Reads `USE_GPU`, `GPU_DEVICE`, `MAX_CONCURRENT_JOBS`, `JOB_TIMEOUT` and `SAFETY_MARGIN_MB`. An
 * empty variable counts as not set; a wrong one is a `Failure` that names it.
 *
 * @example
 * readJobVariables({ GPU_DEVICE: '0', SAFETY_MARGIN_MB: '1000' });
 * // { devices: ['gpu:0'], marginBytes: 1048576000 }
 */
export function readJobVariables(
  environment: Readonly<Record<string, string | undefined>>,
): JobVariables {
  const read = <T>(name: string, reader: (text: string) => T | undefined, wanted: string) => {
    const text = environment[name]?.trim() ?? '';
    if (text === '') return undefined;
    const value = reader(text);
    if (value === undefined) throw wrong(name, text, wanted);
    return value;
  };
  const useGpus = read('USE_GPU', yesOrNo, 'true or false');
  const devices = read('GPU_DEVICE', deviceIds, 'the number of a GPU, such as 0, or several: 0,1');
  const maxRunning = read(
    'MAX_CONCURRENT_JOBS',
    wholeNumber(1, maxJobs),
    'a whole number from 1 on, such as 2',
  );
  const waitTimeoutSeconds = read('JOB_TIMEOUT', seconds, 'seconds (3600), or a unit (5m, 1h)');
  const marginBytes = read(
    'SAFETY_MARGIN_MB',
    wholeNumber(0, largestMarginMb),
    'a whole number of MB, such as 1000',
  );
  return {
    ...(useGpus === undefined ? {} : { useGpus }),
    ...(devices === undefined ? {} : { devices }),
    ...(maxRunning === undefined ? {} : { maxRunning }),
    ...(waitTimeoutSeconds === undefined ? {} : { waitTimeoutSeconds }),
    ...(marginBytes === undefined ? {} : { marginBytes: marginBytes * MiB }),
  };
}

/**
 * Refuses variables that ask for GPUs which this machine does not have: without them jobs would run
 * elsewhere than somebody expects.
 *
 * @example
 * checkGpusThere({ devices: ['gpu:7'] }, ['gpu:0']); // throws: there is no gpu:7
 */
export function checkGpusThere(
  { useGpus, devices = [] }: JobVariables,
  gpus: readonly string[],
): void {
  if (useGpus === false) return;
  const found = gpus.length === 0 ? 'no GPU was found' : `there ${isOrAre(gpus)}`;
  const absent = devices.filter((id) => !gpus.includes(id));
  if (absent.length > 0) {
    throw new Failure({
      kind: 'missing',
      code: 'no-such-gpu',
      fact: `GPU_DEVICE names ${absent.join(', ')}; on this machine ${found}.`,
      next: 'Name GPUs that "plimsoll devices" shows, or unset GPU_DEVICE.',
    });
  }
  if (useGpus === true && gpus.length === 0) {
    throw new Failure({
      kind: 'missing',
      code: 'no-such-gpu',
      fact: `USE_GPU asks for GPUs; on this machine ${found}.`,
      next: 'Set USE_GPU=false to run jobs on the host\'s memory, or check the driver with "plimsoll devices".',
    });
  }
}

function isOrAre(ids: readonly string[]): string {
  return `${ids.length === 1 ? 'is' : 'are'} ${ids.join(', ')}`;
}

function yesOrNo(text: string): boolean | undefined {
  if (/^(true|1|yes|on)$/i.test(text)) return true;
  return /^(false|0|no|off)$/i.test(text) ? false : undefined;
}

function deviceIds(text: string): readonly string[] | undefined {
  const ids = text.split(/[\s,]+/).filter((word) => word !== '');
  if (ids.length === 0 || !ids.every((word) => /^(gpu:)?\d{1,4}$/.test(word))) return undefined;
  return [...new Set(ids.map((word) => `gpu:${Number(word.replace('gpu:', ''))}`))];
}

function wholeNumber(least: number, most: number): (text: string) => number | undefined {
  return (text) => {
    const value = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    return value >= least && value <= most ? value : undefined;
  };
}

function seconds(text: string): number | undefined {
  try {
    const value = parseSeconds(text);
    return value > 0 && value <= longestSeconds ? value : undefined;
  } catch {
    return undefined;
  }
}

function wrong(name: string, text: string, wanted: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-variable',
    fact: `The variable ${name} is "${text.slice(0, 100)}".`,
    next: `Set it to ${wanted}, or unset it.`,
  });
}
