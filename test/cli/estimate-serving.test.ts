import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { needsTorch, tracingPython } from '../support/needs.js';
import { root } from '../support/project-files.js';
import { useCommand } from './command.js';
import { useHome } from './served.js';

const command = useCommand();
const llama = join(root, 'bench/truth/configs/llama-3.2-1b.json');
const written = ['--mode', 'generate', '--batch', '4', '--prompt', '512', '--new', '64'];

describe('plimsoll estimate --mode serve', () => {
  const argv = ['estimate', llama, '--mode', 'serve', '--gpu', '4090', '--max-model-len', '4096'];

  it('tells how many requests there is room for, over HTTP the same', async () => {
    const home = useHome(command);
    const serving = await home.serve();
    const { stdout, exitCode } = await home.run([...argv, '--json']);
    expect(exitCode).toBe(0);
    const answer = JSON.parse(stdout);
    expect(answer).toMatchObject({
      method: 'formula',
      serve: { engine: 'vllm', kvBytesPerToken: 32_768, kvPrecision: 'bf16' },
    });
    const body = { model: llama, mode: 'serve', gpu: '4090', maxModelLen: 4096 };
    const sent = await serving.ask('/estimate', {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    });
    expect(await sent.json()).toEqual(answer);
    const text = await home.run(argv);
    expect(text.stdout).toMatch(
      /^Room for \d+ requests of 4,096 tokens at once \(calculated, vllm\)/,
    );
  });

  it.each([
    [['--mode', 'serve', '--batch', '8'], 'there is no "batch"'],
    [['--mode', 'generate', '--batch', '8', '--new', '4'], 'No usable --prompt was given'],
    [['--batch', '8', '--seq', '8', '--prompt', '4'], '--prompt is for --mode generate'],
    [['--mode', 'serve', '--gpu-memory-utilization', '2'], '--gpu-memory-utilization'],
    [['--mode', 'serve', '--engine', 'tgi'], '--engine'],
  ])('refuses what says nothing: %j', async (more, fact) => {
    const { stdout, stderr, exitCode } = await command.run(['estimate', llama, ...more]);
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
    expect(stderr).toContain(fact);
  });

  it('refuses a model that does not write', async () => {
    const bert = join(root, 'bench/truth/configs/bert-base.json');
    const { stderr, exitCode } = await command.run(['estimate', bert, '--mode', 'serve']);
    expect(exitCode).toBe(2);
    expect(stderr).toContain('does not write text');
  });
});

describe('plimsoll estimate --mode generate', () => {
  it('calculates where there is no Python, and says why', async () => {
    const argv = ['estimate', llama, ...written, '--python', '/nowhere/python3', '--json'];
    const { stdout, exitCode } = await command.run(argv);
    expect(exitCode).toBe(0);
    const { method, notes } = JSON.parse(stdout);
    expect(method).toBe('formula');
    expect(JSON.stringify(notes)).toContain('By formula, as it could not be traced');
  });

  it('traces generate() itself: beams, to what an H200 measured', {
    ...needsTorch,
    tags: 'rest',
  }, async () => {
    const argv = ['estimate', llama, ...written, '--beams', '4', '--gpu', 'h200', '--json'];
    const { stdout, stderr } = await command.run([...argv, '--python', tracingPython]);
    expect(stderr).toBe('');
    const { peak, method } = JSON.parse(stdout);
    expect(method).toBe('trace');
    expect(peak.reservedBytes / 3_470_786_560).toBeCloseTo(1, 2);
    expect(peak.allocatedBytes / 3_314_091_520).toBeCloseTo(1, 3);
  });
});
