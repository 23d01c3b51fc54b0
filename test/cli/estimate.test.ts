import { spawnSync } from 'node:child_process';
import { chmodSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { gpt2TraceFile } from '../../src/estimate/traces-for-tests.js';
import { root } from '../support/project-files.js';
import { useCommand } from './command.js';

const command = useCommand();
const gpt2 = join(root, 'bench/truth/configs/gpt2.json');
const size = ['--batch', '1', '--seq', '64', '--precision', 'bf16'];

describe('plimsoll estimate, with a recorded trace in place of Python', () => {
  let recorded: string[] = [];
  beforeAll(() => {
    const path = join(command.folder(), 'recorded');
    const fixture = fileURLToPath(gpt2TraceFile);
    const script = `#!/bin/sh\nfor output; do :; done\ngunzip -c '${fixture}' > "$output"\n`;
    writeFileSync(path, script);
    chmodSync(path, 0o755);
    recorded = ['estimate', gpt2, ...size, '--python', path];
  });

  it('answers as the contract says', async () => {
    const { stdout, stderr, exitCode } = await command.run([...recorded, '--json']);
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
    const answer = JSON.parse(stdout);
    expect(Object.keys(answer)).toEqual(['method', 'peak', 'interval', 'breakdown', 'notes']);
    expect(answer).toMatchObject({ method: 'trace', interval: { confidence: 0.95 } });
    const { allocatedBytes, reservedBytes, deviceBytes } = answer.peak;
    expect(allocatedBytes).toBeGreaterThan(4 * 248_879_616);
    expect(reservedBytes).toBeGreaterThan(allocatedBytes);
    expect(deviceBytes).toBeGreaterThan(reservedBytes);
  });

  it('draws it for people, for the card that was named', async () => {
    const { stdout } = await command.run([...recorded, '--gpu', 't4']);
    expect(stdout).toMatch(/^Peak on one Tesla T4 \(estimated, by trace\):\n/);
    expect(stdout).toContain('It fits into the 15.0 GiB of this card.');
  });

  it.each([
    [['--method', 'formula'], 'bad-option: --method cannot be "formula".'],
    [['--gpu', 'nonsense'], 'unknown-gpu: '],
    [['--script', 'train.py'], 'bad-usage: Both a model and --script were given.'],
    [['--arg', 'a=1'], 'bad-usage: --arg is for a --script, and none was given.'],
  ])('refuses %j', async (more, message) => {
    const { stderr, exitCode } = await command.run([...recorded, ...more]);
    expect(stderr).toContain(message);
    expect(exitCode).toBe(2);
  });

  it('asks for what the memory depends on', async () => {
    const { stderr } = await command.run(['estimate', gpt2, '--batch', '1']);
    expect(stderr).toContain('Neither --seq nor --image was given.');
  });

  it('says what is missing where there is no Python', async () => {
    const ended = await command.run(['estimate', gpt2, ...size, '--python', './none']);
    expect(ended.stderr).toMatch(/^plimsoll: python-missing: .*--python\.\n$/);
    expect(ended).toMatchObject({ stdout: '', exitCode: 3 });
  });
});

const python = join(root, '.venv/bin/python');
const hasTorch = spawnSync(python, ['-c', 'import torch, transformers']).status === 0;
if (!hasTorch) {
  process.stderr.write('Left out: estimates traced in Python, as the .venv here has no torch.\n');
}

/** Python needs seconds to load torch, and more where many tests run at once. */
const timeout = 180_000;
const traced = hasTorch ? describe : undefined;
traced?.('plimsoll estimate, traced in Python', { timeout }, () => {
  it('gives what an H200 measured for the same job', async () => {
    const job = ['--batch', '16', '--seq', '1024', '--precision', 'bf16', '--optimizer', 'sgd'];
    const argv = ['estimate', gpt2, ...job, '--python', python, '--json'];
    const { stdout, stderr } = await command.run(argv);
    expect(stderr).toBe('');
    const { peak } = JSON.parse(stdout);
    expect(peak.allocatedBytes / 19_040_831_488).toBeCloseTo(1, 3);
    expect(peak.reservedBytes / 24_012_390_400).toBeCloseTo(1, 2);
  });

  it('tells the error of a script in one line, with where', async () => {
    const script = join(command.folder(), 'train.py');
    writeFileSync(script, 'print("hello")\ndef workload():\n    return {}["model"]\n');
    const argv = ['estimate', '--script', script, '--python', python];
    const { stdout, stderr, exitCode } = await command.run(argv);
    expect(stderr).toMatch(/^plimsoll: [a-z-]+: .*KeyError.*train\.py:3.*\n$/);
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
  });
});
