import { execFile, spawnSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import koffi from 'koffi';
import { needs } from '../support/needs.js';

const source = fileURLToPath(new URL('./fake-nvml.c', import.meta.url));

/** Leaves out symbols, the way older drivers do. */
export type FakeSwitch =
  | 'WITHOUT_MEMORY_V2'
  | 'WITHOUT_UTILIZATION'
  | 'WITHOUT_MIG'
  | 'WITHOUT_PROCESSES_V2'
  | 'WITHOUT_PROCESSES_V3';

/** The fake driver library, and the strings by which a test moves it. */
export interface FakeNvml {
  readonly path: string;
  reset(): void;
  /** Sets a figure of GPU `gpu`, or of its MIG instance `instance`. */
  set(key: string, value: number | bigint, gpu?: number, instance?: number): void;
  addProcess(process: {
    pid: number;
    used: number | bigint;
    gpu?: number;
    instance?: number;
    graphics?: boolean;
  }): void;
  calls(what: 'init' | 'shutdown' | 'memory'): number;
  [Symbol.asyncDispose](): Promise<void>;
}

/** For tests that load the fake library. */
export const needsCompiler = needs(
  process.platform !== 'win32' && spawnSync('cc', ['--version']).status === 0,
  'a C compiler named cc',
);

/** Compiles the fake library into a folder of its own, so that each copy has its own state. */
export async function buildFakeNvml(switches: readonly FakeSwitch[] = []): Promise<FakeNvml> {
  const folder = await mkdtemp(join(tmpdir(), 'plimsoll-nvml-'));
  const path = join(folder, 'libfake-nvml.so');
  const flags = ['-O1', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC'];
  const without = switches.map((name) => `-D${name}`);
  await promisify(execFile)('cc', [...flags, ...without, '-o', path, source]);
  const library = koffi.load(path);
  const reset = library.func('void fake_reset()');
  const set = library.func('int fake_set(const char *key, int gpu, int instance, uint64_t value)');
  const add = library.func(
    'void fake_add_process(int gpu, int instance, int graphics, uint32_t pid, uint64_t used)',
  );
  const calls = library.func('int fake_calls(const char *what)');
  reset();
  return {
    path,
    reset: () => reset(),
    set: (key, value, gpu = 0, instance = -1) => {
      if (set(key, gpu, instance, value) !== 0) throw new Error(`no such fake figure: ${key}`);
    },
    addProcess: ({ pid, used, gpu = 0, instance = -1, graphics = false }) => {
      add(gpu, instance, graphics ? 1 : 0, pid, used);
    },
    calls: (what) => Number(calls(what)),
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  };
}
