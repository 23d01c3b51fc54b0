import { mkdtempSync, readFileSync, rmdirSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Environment } from '../config/variables.js';
import type { Discovery } from '../device/discover.js';
import { machineRoots } from '../device/roots.js';
import { pythonProgram } from '../estimate/trace/python-trace.js';
import { homeFolder } from '../files/home-folder.js';
import { makeFolder } from '../files/make-folder.js';
import { packageFolder } from '../files/package-folder.js';
import { makeLimitCgroup, removeCgroup } from '../run/limit/cgroup.js';
import type { Known } from '../units/known.js';
import {
  type Check,
  checkClock,
  checkGpus,
  checkHome,
  checkHostLimit,
  checkNativeLibrary,
  checkNode,
  checkPython,
  checkSharedMemory,
  checkTorch,
  type HomeFacts,
  type LimitFacts,
} from './checks.js';
import { pythonFacts } from './python-facts.js';

/** Any small limit: no process enters it. */
const trialLimitBytes = 64 * 1024 ** 2;

export interface ExamineOptions {
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
    checkSharedMemory(freeBytes('/dev/shm')),
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
  return { path, problem: undefined, freeBytes: freeBytes(path) };
}

/** What a folder's file system has left; unknown where it is not there. */
export function freeBytes(path: string): Known<number> {
  try {
    const { bavail, bsize } = statfsSync(path);
    return bavail * bsize;
  } catch {
    return 'unknown';
  }
}
