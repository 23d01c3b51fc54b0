import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { findGpu } from './cards/gpus.js';
import { type EstimateRequest, estimate } from './estimate.js';
import { gpt2TraceFile } from './trace/traces-for-tests.js';
import type { Workload } from './types.js';

const config = fileURLToPath(new URL('../../bench/truth/configs/gpt2.json', import.meta.url));
const workload: Workload = {
  mode: 'train',
  batch: 1,
  sequence: 64,
  precision: 'bf16',
  optimizer: 'adamw',
  checkpointing: false,
};
const gpt2: EstimateRequest = {
  source: { kind: 'path', path: config },
  workload,
  gpu: findGpu('h200'),
  method: 'auto',
};

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-estimate-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true });
});

/** A program in Python's place; the last of its arguments is the file to write. */
function python(script: string): string {
  const path = join(folder, `python-${Math.random().toString(36).slice(2)}`);
  writeFileSync(path, `#!/bin/sh\nfor output; do :; done\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}
const tracing = () => python(`gunzip -c '${fileURLToPath(gpt2TraceFile)}' > "$output"`);
const failing = (code: string, status = 2) =>
  python(
    `echo '{"error":{"code":"${code}","fact":"it is ${code}","next":"fix it"}}'; exit ${status}`,
  );

const run = (request: Partial<EstimateRequest>, program: string, signal?: AbortSignal) =>
  estimate({ ...gpt2, ...request }, { python: program, environment: process.env, folder, signal });

function folderWith(name: string, files: Readonly<Record<string, string | Buffer>>): string {
  const path = join(folder, name);
  mkdirSync(path);
  for (const [file, content] of Object.entries(files)) writeFileSync(join(path, file), content);
  return path;
}
/** One tensor of 4 MiB, or as long as said. */
function safetensors(elements = 1024 * 1024): Buffer {
  const header = JSON.stringify({
    a: { dtype: 'F32', shape: [elements], data_offsets: [0, elements * 4] },
  });
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(header.length));
  return Buffer.concat([length, Buffer.from(header), Buffer.alloc(elements * 4)]);
}

describe('estimate', () => {
  it('traces what it can', async () => {
    expect((await run({}, tracing())).method).toBe('trace');
    expect((await run({ method: 'trace' }, tracing())).method).toBe('trace');
  });

  it.each([
    ['torch-missing', 3],
    ['config-refused', 2],
    ['model-failed', 2],
  ])('takes the formula after %s, and says why first', async (code, status) => {
    const { method, notes, peak } = await run({}, failing(code, status));
    expect(method).toBe('formula');
    expect(notes[0]).toBe(`Not traced: It is ${code}.${status === 3 ? ' Fix it.' : ''}`);
    expect(peak.reservedBytes).toBeGreaterThan(8 * 124_439_808);
  });

  it('never falls back when it must trace, or when the workload is wrong', async () => {
    const missing = run({ method: 'trace' }, failing('torch-missing', 3));
    await expect(missing).rejects.toMatchObject({ kind: 'missing', code: 'torch-missing' });
    const wrong = run({}, failing('no-checkpointing'));
    await expect(wrong).rejects.toMatchObject({ kind: 'input', code: 'no-checkpointing' });
  });

  it('starts no Python for the formula', async () => {
    const touched = join(folder, 'touched');
    const program = python(`touch '${touched}'`);
    expect((await run({ method: 'formula' }, program)).method).toBe('formula');
    const bad = run({ workload: { ...workload, sequence: undefined } }, program);
    await expect(bad).rejects.toMatchObject({ code: 'no-sequence' });
    expect(existsSync(touched)).toBe(false);
  });

  it('tells both reasons where neither way leads to an answer', async () => {
    const path = folderWith('unheard-of', { 'config.json': '{"model_type":"unheard_of"}' });
    const nothing = run({ source: { kind: 'path', path } }, failing('torch-missing', 3));
    await expect(nothing).rejects.toMatchObject({ kind: 'missing', code: 'torch-missing' });
    await expect(nothing).rejects.toThrow(/It is torch-missing\. There is no formula.*Fix it\.$/);
  });

  it('is interrupted, not estimated in another way', async () => {
    const stop = new AbortController();
    const waiting = run({}, python('sleep 100'), stop.signal);
    stop.abort();
    await expect(waiting).rejects.toMatchObject({ kind: 'interrupted' });
  });

  it('takes weights with their config, and by their headers without', async () => {
    const files = { 'model.safetensors': safetensors() };
    const alone = folderWith('alone', files);
    const infer = { ...workload, mode: 'infer' } as const;
    const ofWeights = { source: { kind: 'path', path: alone }, workload: infer } as const;
    const { method, notes } = await run(ofWeights, tracing());
    expect(method).toBe('formula');
    expect(notes[0]).toMatch(/^Not traced: There is no config\.json beside /);
    const must = run({ ...ofWeights, method: 'trace' }, tracing());
    await expect(must).rejects.toMatchObject({ kind: 'input', code: 'no-config' });

    const whole = folderWith('whole', files);
    copyFileSync(config, join(whole, 'config.json'));
    for (const path of [whole, join(whole, 'model.safetensors')]) {
      const withConfig = await run({ source: { kind: 'path', path } }, tracing());
      expect(withConfig.method).toBe('trace');
    }
  });

  it('only traces a script, whose failure is an error', async () => {
    const source = { kind: 'script', path: 'train.py', args: [] } as const;
    expect((await run({ source }, tracing())).method).toBe('trace');
    const failed = run({ source }, failing('script-failed'));
    await expect(failed).rejects.toMatchObject({ kind: 'input', code: 'script-failed' });
    const formula = run({ source, method: 'formula' }, tracing());
    await expect(formula).rejects.toMatchObject({ code: 'only-traced' });
  });

  it('warns of what would fail when it is run', async () => {
    const long = { ...workload, sequence: 2048 };
    const { notes } = await run({ workload: long, method: 'formula' }, tracing());
    expect(notes[0]).toContain('places for 1024 tokens');
  });
});
