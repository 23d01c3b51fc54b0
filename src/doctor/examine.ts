import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmdirSync, statfsSync, statSync } from 'node:fs';
import { join } from 'node:path';
import type { Environment } from '../config/environment.js';
import type { Discovery } from '../device/discover.js';
import { machineRoots } from '../device/kernel-files.js';
import { pythonProgram } from '../estimate/trace/python-trace.js';
import { homeFolder, makeFolder, packageFolder } from '../files/folders.js';
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
  type PythonFacts,
} from './checks.js';

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
