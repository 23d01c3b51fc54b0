import { formatBytes } from '../units/bytes.js';
import type { Known } from '../units/known.js';
import { isKnown } from '../units/known.js';

/**
 * `ok` works; `limited` works with less than it could; `broken` is needed and does not work;
 * `absent` is not here, and needed only by those who want it.
 */
export type CheckState = 'ok' | 'limited' | 'broken' | 'absent';

export interface Check {
  /** A short name that stays the same: programs look checks up by it. */
  readonly name: string;
  readonly state: CheckState;
  readonly fact: string;
  /** What to do about it; there whenever the state is not `ok`. */
  readonly next?: string;
}

const leastNode = { major: 20, minor: 19 };
const leastPython = { major: 3, minor: 9 };
const leastTorch = { major: 2, minor: 6 };
/** Below this, a job's log alone may fill the disk. */
const lowDiskBytes = 1024 ** 3;
/** DataLoader workers hand batches over through /dev/shm; Docker's default of 64 MiB is too small. */
const lowSharedBytes = 1024 ** 3;
/** A clock that is a little behind the files is a coarse file system, not a wrong clock. */
const clockToleranceMs = 60_000;

export function checkNode(version: string): Check {
  const name = 'node';
  if (isAtLeast(version.replace(/^v/, ''), leastNode)) {
    return { name, state: 'ok', fact: `Node ${version}.` };
  }
  return {
    name,
    state: 'broken',
    fact: `Node ${version} is too old: plimsoll needs ${leastNode.major}.${leastNode.minor} or newer.`,
    next: 'Install a current Node, or use the bundle, which brings its own.',
  };
}

/** A library with native code, and who needs it. */
export interface NativeLibrary {
  readonly name: string;
  readonly neededFor: string;
  /** Why it does not load; undefined where it does. */
  readonly problem: string | undefined;
}

export function checkNativeLibrary({ name, neededFor, problem }: NativeLibrary): Check {
  if (problem === undefined) return { name, state: 'ok', fact: `${name} loads (${neededFor}).` };
  return {
    name,
    state: 'broken',
    fact: `${name} does not load, so there is no ${neededFor}: ${problem}.`,
    next: 'Install plimsoll again on this machine (npm ci in a clone): its native code is built for one platform.',
  };
}

export interface GpuFacts {
  readonly names: readonly string[];
  /** What could not be seen, and why, in sentences. */
  readonly notes: readonly string[];
  /** The driver's own version; unknown where there is no driver of NVIDIA. */
  readonly driver: Known<string>;
}

export function checkGpus({ names, notes, driver }: GpuFacts): Check {
  const name = 'gpus';
  const driverText = isKnown(driver) ? `, driver ${driver}` : '';
  if (names.length > 0 && notes.length === 0) {
    return { name, state: 'ok', fact: `${names.join(', ')}${driverText}.` };
  }
  if (notes.length > 0) {
    return {
      name,
      state: names.length > 0 ? 'limited' : 'broken',
      fact: notes.join(' '),
      next: 'Run nvidia-smi (or rocm-smi): if it fails as well, the driver is the cause. In a container, start it with --gpus all.',
    };
  }
  return {
    name,
    state: 'absent',
    fact: 'No GPU was found. Estimates, plans and jobs on host memory work without one.',
    next: 'If there should be one: check that the driver is loaded; in a container, start it with --gpus all.',
  };
}

export interface HomeFacts {
  readonly path: string;
  /** Why nothing can be written there; undefined where it can. */
  readonly problem: string | undefined;
  readonly freeBytes: Known<number>;
}

export function checkHome({ path, problem, freeBytes }: HomeFacts): Check {
  const name = 'home';
  if (problem !== undefined) {
    return {
      name,
      state: 'broken',
      fact: `${path} cannot be written: ${problem}.`,
      next: 'Make it writable for your user, or set PLIMSOLL_HOME to a folder of yours.',
    };
  }
  const free = isKnown(freeBytes) ? `${formatBytes(freeBytes)} free` : 'free space unknown';
  if (isKnown(freeBytes) && freeBytes < lowDiskBytes) {
    return {
      name,
      state: 'limited',
      fact: `${path} has little space left: ${free}.`,
      next: 'Free some space, or set PLIMSOLL_HOME to a larger disk: logs and reports are kept there.',
    };
  }
  return { name, state: 'ok', fact: `${path} can be written, ${free}.` };
}

/** How a memory limit on host memory is enforced here, found by making one. */
export type LimitFacts = { readonly version: 1 | 2 } | { readonly problem: string };

export function checkHostLimit(facts: LimitFacts): Check {
  const name = 'host-limit';
  if ('version' in facts) {
    return {
      name,
      state: 'ok',
      fact: `The kernel enforces memory limits (cgroup version ${facts.version}).`,
    };
  }
  return {
    name,
    state: 'limited',
    fact: `No cgroup can be used: ${facts.problem}. Limits on host memory fall back to the address space of each process.`,
    next: 'Run under a systemd user session with delegation (systemd-run --user --scope -p Delegate=yes), or as root.',
  };
}

/** What Python said about itself, or why it said nothing. */
export type PythonFacts =
  | {
      readonly program: string;
      readonly version: string;
      readonly torch: Known<string>;
      readonly transformers: Known<string>;
      /** Whether torch finds a GPU; unknown without torch. */
      readonly cuda: Known<boolean>;
    }
  | { readonly program: string; readonly problem: string };

export function checkPython(facts: PythonFacts): Check {
  const name = 'python';
  const { program } = facts;
  if ('problem' in facts) {
    return {
      name,
      state: 'absent',
      fact: `${program} does not run: ${facts.problem}. Watching and jobs work without it; exact estimates and recovery do not.`,
      next: 'Install Python 3.9 or newer, or activate the environment of your project first.',
    };
  }
  if (!isAtLeast(facts.version, leastPython)) {
    return {
      name,
      state: 'limited',
      fact: `${program} is Python ${facts.version}; the package plimsoll needs ${leastPython.major}.${leastPython.minor} or newer.`,
      next: 'Activate an environment with a newer Python.',
    };
  }
  return { name, state: 'ok', fact: `${program} is Python ${facts.version}.` };
}

export function checkTorch(facts: PythonFacts, gpus: number): Check | undefined {
  if ('problem' in facts) return undefined;
  const name = 'torch';
  const { torch, transformers, cuda, program } = facts;
  if (!isKnown(torch)) {
    return {
      name,
      state: 'absent',
      fact: `${program} has no torch: estimates come from formulas instead of traces.`,
      next: 'Activate the environment of your project, or install torch there.',
    };
  }
  const versions = `torch ${torch}, transformers ${isKnown(transformers) ? transformers : 'not installed'}`;
  if (!isAtLeast(torch, leastTorch)) {
    return {
      name,
      state: 'limited',
      fact: `${versions}: tracing was tested with torch ${leastTorch.major}.${leastTorch.minor} and newer.`,
      next: 'Update torch, or estimate with --method formula.',
    };
  }
  if (gpus > 0 && cuda === false) {
    return {
      name,
      state: 'limited',
      fact: `${versions}: torch does not see the GPU of this machine.`,
      next: 'Install a build of torch for your GPU, and check CUDA_VISIBLE_DEVICES.',
    };
  }
  return { name, state: 'ok', fact: `${versions}.` };
}

export function checkSharedMemory(freeBytes: Known<number>): Check {
  const name = 'shared-memory';
  if (!isKnown(freeBytes)) {
    return {
      name,
      state: 'absent',
      fact: '/dev/shm is not there.',
      next: 'If DataLoader workers fail, set num_workers to 0.',
    };
  }
  if (freeBytes < lowSharedBytes) {
    return {
      name,
      state: 'limited',
      fact: `/dev/shm has ${formatBytes(freeBytes)} free: DataLoader workers may fail with a bus error.`,
      next: 'In a container, start it with --shm-size=8g or --ipc=host.',
    };
  }
  return { name, state: 'ok', fact: `/dev/shm has ${formatBytes(freeBytes)} free.` };
}

export interface ClockFacts {
  readonly nowEpochMs: number;
  /** When this installation was made: the clock cannot be before that. */
  readonly installedEpochMs: number;
}

export function checkClock({ nowEpochMs, installedEpochMs }: ClockFacts): Check {
  const name = 'clock';
  const now = new Date(nowEpochMs).toISOString();
  if (nowEpochMs >= installedEpochMs - clockToleranceMs) {
    return { name, state: 'ok', fact: `It is ${now}.` };
  }
  return {
    name,
    state: 'limited',
    fact: `The clock says ${now}, which is before plimsoll was installed here.`,
    next: 'Set the clock (timedatectl set-ntp true): times in reports and logs would be wrong.',
  };
}

/** Whether anything that is needed does not work. */
export function isHealthy(checks: readonly Check[]): boolean {
  return checks.every(({ state }) => state !== 'broken');
}

function isAtLeast(version: string, least: { readonly major: number; readonly minor: number }) {
  const [major = 0, minor = 0] = version.split('.').map((part) => Number.parseInt(part, 10));
  return major > least.major || (major === least.major && minor >= least.minor);
}
