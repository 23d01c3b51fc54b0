import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { findGpu } from '../cards/gpus.js';
import { optimizers, precisions, quantizationPresets, type Workload } from '../types.js';
import {
  type PythonTraceOptions,
  pythonProgram,
  pythonTrace,
  traceArguments,
} from './python-trace.js';
import { gpt2TraceFile } from './traces-for-tests.js';

const workload: Workload = {
  mode: 'train',
  batch: 2,
  sequence: 64,
  precision: 'bf16',
  optimizer: 'sgd',
  checkpointing: true,
  loraRank: 8,
};
const source = { kind: 'config', path: '-config.json' } as const;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll python '));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

/** A program in Python's place; the last of its arguments is the file to write. */
function standIn(script: string): string {
  const path = join(folder, 'python');
  writeFileSync(path, `#!/bin/sh\nfor output; do :; done\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

function run(script: string, more: Partial<PythonTraceOptions> = {}) {
  const environment = { PATH: process.env['PATH'], PLIMSOLL_DEBUG: '1' };
  return pythonTrace(source, workload, { python: standIn(script), environment, folder, ...more });
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 10));
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch {
    return false;
  }
  // Ended, and not yet fetched by the process that inherited it.
  const stat = `/proc/${pid}/stat`;
  return !(existsSync(stat) && / Z /.test(readFileSync(stat, 'utf8')));
}

describe('pythonTrace', () => {
  it('reads what Python wrote, whatever the model prints', async () => {
    const script = `echo noise; gunzip -c '${fileURLToPath(gpt2TraceFile)}' > "$output"`;
    expect((await run(script)).parameters).toBe(124_439_808);
  });

  it('hands over arguments and an environment that finds our Python part', async () => {
    const script = 'printf "%s\\n" "$PLIMSOLL_DEBUG" "$PYTHONPATH" "$@" > said; exit 1';
    await expect(run(script)).rejects.toMatchObject({ code: 'trace-crashed' });
    const [debug, path, ...args] = readFileSync(join(folder, 'said'), 'utf8').split('\n');
    expect(debug).toBe('');
    expect(existsSync(join(path ?? '', 'plimsoll_trace', '__main__.py'))).toBe(true);
    expect(args.slice(0, 4)).toEqual([
      '-m',
      'plimsoll_trace',
      '--config=-config.json',
      '--mode=train',
    ]);
  });

  it('reports progress to a caller that asks, and keeps it out of errors', async () => {
    const script =
      'echo "{\\"progress\\":{\\"phase\\":\\"$PLIMSOLL_PROGRESS\\"}}" >&2; echo KeyError: 3 >&2; echo "{\\"progress\\":{\\"phase\\":\\"build\\"}}" >&2; exit 1';
    const reported: string[] = [];
    const error = await run(script, { onProgress: (text) => reported.push(text) }).catch(String);
    expect(reported).toEqual(['Tracing', 'Building the model without its weights']);
    expect(error).toContain('left no trace: KeyError: 3 ');
    const unasked = await run('echo "asked: $PLIMSOLL_PROGRESS." >&2; exit 1').catch(String);
    expect(unasked).toContain('asked: .');
  });

  it('says when there is no such Python', async () => {
    const options = { python: join(folder, 'none'), environment: {}, folder };
    await expect(pythonTrace(source, workload, options)).rejects.toMatchObject({
      kind: 'missing',
      code: 'python-missing',
    });
  });

  it('ends what hangs, with all it started', async () => {
    const script = 'sleep 1000 & echo $! > child.part; mv child.part child; wait';
    const trace = run(script, { timeoutSeconds: 1 });
    await expect(trace).rejects.toMatchObject({ kind: 'job', code: 'trace-too-slow' });
    await until(() => !isAlive(Number(readFileSync(join(folder, 'child'), 'utf8'))));
  });

  it('ends when it is told to, with all it started', async () => {
    const stop = new AbortController();
    const script = 'sleep 1000 & echo $! > child.part; mv child.part child; wait';
    const trace = run(script, { signal: stop.signal });
    const stopped = until(() => existsSync(join(folder, 'child'))).then(() => stop.abort());
    await expect(trace).rejects.toMatchObject({ kind: 'interrupted' });
    await stopped;
    await until(() => !isAlive(Number(readFileSync(join(folder, 'child'), 'utf8'))));
    const again = run('exit 0', { signal: stop.signal });
    await expect(again).rejects.toMatchObject({ kind: 'interrupted' });
  });

  it('leaves no file behind', async () => {
    const script = 'echo "$output" > where; echo x > "$TMPDIR/of-torch"; echo broken > "$output"';
    await expect(run(script)).rejects.toMatchObject({ code: 'bad-trace' });
    const written = readFileSync(join(folder, 'where'), 'utf8').trim();
    expect(written).toMatch(/trace\.jsonl$/);
    expect(existsSync(dirname(written))).toBe(false);
  });
});

describe('pythonProgram', () => {
  it.each([
    ['mine', { VIRTUAL_ENV: '/venv' }, 'linux', 'mine'],
    [undefined, { VIRTUAL_ENV: '/venv' }, 'linux', '/venv/bin/python'],
    [undefined, { VIRTUAL_ENV: '' }, 'linux', 'python3'],
    [undefined, { PLIMSOLL_PYTHON: '/opt/py/bin/python' }, 'linux', '/opt/py/bin/python'],
    [undefined, { VIRTUAL_ENV: '/venv', PLIMSOLL_PYTHON: '/opt/p' }, 'linux', '/venv/bin/python'],
    [undefined, {}, 'win32', 'python'],
  ] as const)('%s with %j on %s is %s', (wanted, environment, platform, program) => {
    expect(pythonProgram(wanted, environment, platform)).toBe(program);
  });
});

describe('traceArguments', () => {
  it('writes a script with its arguments, and leaves out what does not count', () => {
    const script = { kind: 'script', path: 'train.py', args: ['layers=12', 'name=a b'] } as const;
    const infer = {
      ...workload,
      mode: 'infer',
      checkpointing: false,
      loraRank: undefined,
    } as const;
    expect(traceArguments(script, infer)).toEqual([
      '--script=train.py',
      '--arg=layers=12',
      '--arg=name=a b',
      '--mode=infer',
      '--batch=2',
      '--seq=64',
      '--precision=bf16',
    ]);
    const vision = { kind: 'torchvision', name: 'resnet50' } as const;
    expect(traceArguments(vision, workload)).toEqual(
      expect.arrayContaining([
        '--torchvision=resnet50',
        '--optimizer=sgd',
        '--checkpointing',
        '--lora=8',
      ]),
    );
    const quantized = traceArguments(source, { ...workload, quantization: 'int4' });
    expect(quantized).toContain('--quantization=int4');
  });

  it('describes a card of NVIDIA, and leaves the H200 to the tracer', () => {
    const facts = (name: string) =>
      traceArguments(source, workload, findGpu(name)).filter((arg) => /gpu|capab|multi/.test(arg));
    expect(facts('3060')).toEqual([
      '--gpu=NVIDIA GeForce RTX 3060',
      '--capability=8.6',
      '--multiprocessors=28',
      '--gpu-memory=12884901888',
    ]);
    expect(facts('h200')).toEqual([]);
    expect(facts('mi300x')).toEqual([]);
    const unknown = findGpu('ours', [{ name: 'Ours', capacityBytes: 2 ** 34 }]);
    expect(traceArguments(source, workload, unknown)).toEqual(traceArguments(source, workload));
  });

  it('names every setting as Python does', () => {
    const file = new URL('../../../python/plimsoll_trace/options.py', import.meta.url);
    const python = readFileSync(file, 'utf8');
    const listed = (name: string) => {
      const [, list = ''] = new RegExp(`^${name} = \\(([^)]*)\\)`, 'm').exec(python) ?? [];
      return [...list.matchAll(/"([^"]+)"/g)].map(([, word]) => word);
    };
    expect(listed('OPTIMIZERS')).toEqual([...optimizers]);
    expect(listed('PRECISIONS')).toEqual([...precisions]);
    expect(listed('QUANTIZATIONS')).toEqual([...quantizationPresets]);
  });
});
