import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmdirSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Environment } from '../../config/environment.js';
import type { Discovery } from '../../device/discover.js';
import { machineRoots } from '../../device/kernel-files.js';
import { pythonProgram } from '../../estimate/trace/python-trace.js';
import { homeFolder, makeFolder, packageFolder } from '../../files/folders.js';
import { makeLimitCgroup, removeCgroup } from '../../run/limit/cgroup.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';

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
interface NativeLibrary {
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

interface GpuFacts {
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

interface HomeFacts {
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
type LimitFacts = { readonly version: 1 | 2 } | { readonly problem: string };

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
type PythonFacts =
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

interface ClockFacts {
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

/** Any small limit: no process enters it. */
const trialLimitBytes = 64 * 1024 ** 2;

interface ExamineOptions {
  readonly environment: Environment;
  readonly folder: string;
  readonly python: string | undefined;
  readonly discovery: Discovery;
  readonly signal: AbortSignal;
}

/**
 * Tries whatever plimsoll needs on this machine: each library is loaded, a file is written into the
 * home folder and removed, a cgroup is made and removed, Python is started.
 */
export async function examine(options: ExamineOptions): Promise<readonly Check[]> {
  const { environment, folder, discovery, signal } = options;
  const gpus = discovery.devices.filter(({ info }) => info.id !== 'host');
  const program = pythonProgram(options.python, environment);
  const [koffi, sqlite, python] = await Promise.all([
    problemOf(() => import('koffi')),
    problemOf(() => import('@photostructure/sqlite')),
    pythonFacts({ program, environment, folder, askTorch: gpus.length > 0, signal }),
  ]);
  const torch = checkTorch(python, gpus.length);
  return [
    checkNode(process.version),
    checkNativeLibrary({ name: 'koffi', neededFor: 'reading of NVIDIA GPUs', problem: koffi }),
    checkNativeLibrary({ name: 'sqlite', neededFor: 'job queue', problem: sqlite }),
    checkGpus({
      names: gpus.map(({ info }) => info.name),
      notes: discovery.notes,
      driver: driverVersion(),
    }),
    checkHostLimit(tryHostLimit()),
    checkHome(tryHome(homeFolder(environment))),
    checkSharedMemory(freeBytesAt('/dev/shm')),
    checkPython(python),
    ...(torch === undefined ? [] : [torch]),
    checkClock({
      nowEpochMs: Date.now(),
      installedEpochMs: statSync(join(packageFolder, 'package.json')).ctimeMs,
    }),
  ];
}

async function problemOf(load: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await load();
    return undefined;
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    return message.split('\n')[0] ?? message;
  }
}

function driverVersion(): Known<string> {
  try {
    return readFileSync('/sys/module/nvidia/version', 'utf8').trim() || 'unknown';
  } catch {
    return 'unknown';
  }
}

function tryHostLimit(): LimitFacts {
  if (process.platform !== 'linux') return { problem: `there are none on ${process.platform}` };
  const made = makeLimitCgroup({
    procRoot: machineRoots.proc,
    name: `doctor-${process.pid}`,
    limitBytes: trialLimitBytes,
  });
  if ('why' in made) return { problem: made.why };
  removeCgroup(made.folder);
  return { version: made.version };
}

function tryHome(path: string): HomeFacts {
  try {
    makeFolder(path, 0o700);
    rmdirSync(mkdtempSync(join(path, '.doctor-')));
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    return { path, problem: code, freeBytes: 'unknown' };
  }
  return { path, problem: undefined, freeBytes: freeBytesAt(path) };
}

/** What a folder's file system has left; unknown where it is not there. */
export function freeBytesAt(path: string): Known<number> {
  try {
    const { bavail, bsize } = statfsSync(path);
    return bavail * bsize;
  } catch {
    return 'unknown';
  }
}

/** Versions are read from the packages' metadata: importing torch takes seconds. */
const question = `
import json, sys
from importlib import metadata
def version(name):
    try:
        return metadata.version(name)
    except Exception:
        return None
print(json.dumps({"version": sys.version.split()[0], "torch": version("torch"),
                  "transformers": version("transformers")}))
`;
const cudaQuestion = 'import torch; print(torch.cuda.is_available())';

/** A Python on a slow network disk takes long to start; one that hangs must not hold us. */
const timeoutMs = 60_000;
const maxOutputBytes = 65_536;

interface PythonQuestion {
  readonly program: string;
  readonly environment: Environment;
  readonly folder: string;
  /** Asks torch itself whether it sees a GPU: slow, and of use only where there is one. */
  readonly askTorch: boolean;
  readonly signal: AbortSignal;
}

async function pythonFacts(asked: PythonQuestion): Promise<PythonFacts> {
  const { program } = asked;
  const answer = await ask(question, asked);
  if ('problem' in answer) return { program, ...answer };
  const facts = parse(answer.text);
  if (facts === undefined) return { program, problem: 'it did not answer as Python does' };
  const torch = known(facts['torch']);
  return {
    program,
    version: String(facts['version']),
    torch,
    transformers: known(facts['transformers']),
    cuda: asked.askTorch && torch !== 'unknown' ? await seesGpu(asked) : 'unknown',
  };
}

async function seesGpu(asked: PythonQuestion): Promise<Known<boolean>> {
  const answer = await ask(cudaQuestion, asked);
  if ('problem' in answer) return 'unknown';
  const word = answer.text.trim();
  return word === 'True' || word === 'False' ? word === 'True' : 'unknown';
}

function ask(
  code: string,
  { program, environment, folder, signal }: PythonQuestion,
): Promise<{ readonly text: string } | { readonly problem: string }> {
  return new Promise((resolve) => {
    execFile(
      program,
      ['-c', code],
      {
        cwd: folder,
        env: environment,
        timeout: timeoutMs,
        killSignal: 'SIGKILL',
        maxBuffer: maxOutputBytes,
        signal,
      },
      (error, stdout) => resolve(error === null ? { text: stdout } : { problem: reason(error) }),
    );
  });
}

function reason(error: Error): string {
  const code: unknown = Reflect.get(error, 'code');
  if (code === 'ENOENT') return 'there is no such program';
  if (code === 'EACCES') return 'it may not be run';
  if (Reflect.get(error, 'killed') === true) return 'it did not answer in time';
  return typeof code === 'number' ? `it ended with exit code ${code}` : error.message;
}

function parse(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && 'version' in value
      ? Object.fromEntries(Object.entries(value))
      : undefined;
  } catch {
    return undefined;
  }
}

function known(value: unknown): Known<string> {
  return typeof value === 'string' ? value : 'unknown';
}
