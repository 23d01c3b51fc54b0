import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { RunReport } from '../../src/run/types.js';
import { useCommand } from '../cli/command.js';
import { needsTorch, tracingPython } from '../support/needs.js';
import { canLimitByCgroup } from './running.js';

const command = useCommand();
const isCgroup = canLimitByCgroup();
// Node and torch reserve more than a gigabyte of addresses before they do anything.
const [memory, batch] = isCgroup ? ['256MiB', 64] : ['3GiB', 512];
const [torchMemory, torchBatch] = isCgroup ? ['900MiB', 64] : ['6GiB', 512];

function write(name: string, text: string): string {
  const path = join(command.folder(), name);
  writeFileSync(path, text);
  return path;
}

async function adapted(limit: string, words: readonly string[]) {
  const { stdout, stderr, exitCode } = await command.run(
    ['run', '--adapt', '--memory', limit, '--device', 'host', '--json', '--', ...words],
    { environment: { PLIMSOLL_HOME: join(command.folder(), 'home') } },
  );
  const report: RunReport = JSON.parse(stdout);
  return { report, printed: stderr, exitCode };
}

/** Programs that know nothing of us: 8 MiB for each sample, all touched. */
const byOption = `
  const at = process.argv.indexOf('--batch-size');
  const batch = Number(process.argv[at + 1]);
  const held = [];
  for (let i = 0; i < batch; i++) held.push(Buffer.alloc(8 << 20, 1));
  console.log('trained with', held.length);`;
const byFile = `
  import { readFileSync } from 'node:fs';
  const text = readFileSync(process.argv.at(-1).replace('--config=', ''), 'utf8');
  const number = (name) => Number(new RegExp(name + ': (\\\\d+)').exec(text)[1]);
  const held = [];
  for (let i = 0; i < number('batch_size'); i++) held.push(Buffer.alloc(8 << 20, 1));
  console.log('trained with', held.length, 'x', number('grad_accum'), /name: (.*)/.exec(text)[1]);`;
const trainer = `
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=8)
parser.add_argument("--grad-accum", type=int, default=1)
given = parser.parse_args()
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(4, 1 << 20), torch.nn.Tanh(), torch.nn.Linear(1 << 20, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
for _ in range(2):
    for _ in range(given.grad_accum):
        model(torch.ones(given.batch_size, 4)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("trained with", given.batch_size, "x", given.grad_accum)
`;

/**
 * A loop on a simulated card: what it holds is a quarter of the limit and an eighth a sample, so that
 * six samples fit, and five under the load line. Like nanoGPT it fails in an evaluation.
 */
const onCard = `
import os, sys
import torch
from plimsoll.trainers import after_failure

LIMIT = int(os.environ["PLIMSOLL_MEMORY_BYTES"])
batch = int(sys.argv[sys.argv.index("--batch-size") + 1])

class Card:
    peak = 0

    def capacity_bytes(self):
        return LIMIT

    def used_share(self):
        return 0.5

    def reset_peak(self):
        self.peak = 0

    def peak_bytes(self):
        return self.peak

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 3)

    def forward(self, x, y):
        needed = LIMIT // 4 + len(x) * LIMIT // 8
        card.peak = max(card.peak, needed)
        if needed > LIMIT:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 MiB.")
        logits = self.layer(x)
        return logits, torch.nn.functional.cross_entropy(logits, y)

card, model = Card(), Model()
after_failure.gauge_of = lambda: card
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.ones(batch, 4), torch.zeros(batch, dtype=torch.long)
with torch.no_grad():
    model.eval()(x, y)
for _ in range(2):
    model.train()(x, y)[1].backward()
    optimizer.step()
print("trained with", batch)
`;

function expectRecovered(report: RunReport, whole: number) {
  expect(report.outcome).toBe('succeeded');
  expect(report.attempts.length).toBeGreaterThan(1);
  expect(report.attempts[0]?.outOfMemory).not.toBeNull();
  expect(report.attempts[0]?.rungs.map(({ rung }) => rung)).toEqual(['smaller-microbatch']);
  const { batch_size: size, accumulation } = report.attempts.at(-1)?.settings ?? {};
  expect(Number(size)).toBeLessThan(whole);
  expect(Number(size) * Number(accumulation)).toBe(whole);
  return { size: Number(size), accumulation: Number(accumulation) };
}

describe('run --adapt, at a real limit', () => {
  it('starts a program again with another --batch-size', async () => {
    write('option.mjs', byOption);
    const words = [process.execPath, 'option.mjs', '--batch-size', String(batch)];
    const { report, printed, exitCode } = await adapted(memory, words);
    const { size } = expectRecovered(report, batch);
    expect(printed).toContain(`trained with ${size}`);
    expect(report.attempts[0]?.command).toEqual(words);
    expect(report.attempts.at(-1)?.command.at(-1)).toBe(String(size));
    expect(exitCode).toBe(0);
  });

  it('starts a program again with a changed copy of its YAML file', async () => {
    write('file.mjs', byFile);
    const text = `name: mine # kept\nbatch_size: ${batch} # samples\ngrad_accum: 1\n`;
    const file = write('run.yaml', text);
    const words = [process.execPath, 'file.mjs', '--config=run.yaml'];
    const { report, printed } = await adapted(memory, words);
    const { size, accumulation } = expectRecovered(report, batch);
    expect(printed).toContain(`trained with ${size} x ${accumulation} mine # kept`);
    expect(readFileSync(file, 'utf8')).toBe(text);
    expect(report.attempts[0]?.command).toEqual(words);
    const copy = report.attempts.at(-1)?.command.at(-1) ?? '';
    expect(copy).toMatch(/^--config=.*attempt-\d+\/run\.yaml$/);
    expect(readFileSync(copy.slice('--config='.length), 'utf8')).toBe(
      `name: mine # kept\nbatch_size: ${size} # samples\ngrad_accum: ${accumulation}\n`,
    );
  });

  it('starts a training loop of PyTorch again', { ...needsTorch, tags: 'rest' }, async () => {
    write('train.py', trainer);
    const options = ['--batch-size', String(torchBatch), '--grad-accum', '1'];
    const words = [tracingPython, 'train.py', ...options];
    const { report, printed } = await adapted(torchMemory, words);
    const { size, accumulation } = expectRecovered(report, torchBatch);
    expect(printed).toContain(`trained with ${size} x ${accumulation}`);
  });

  it('comes to the right batch at once where the failed loop can tell', {
    ...needsTorch,
    tags: 'rest',
  }, async () => {
    write('card.py', onCard);
    const words = [tracingPython, 'card.py', '--batch-size', '32', '--grad-accum', '1'];
    const { report, printed } = await adapted(torchMemory, words);
    expect(report.attempts.map(({ settings }) => settings.batch_size)).toEqual([32, 4]);
    const sizes = report.attempts[0]?.measuredSizes?.map(({ microbatch }) => microbatch);
    expect(sizes).toEqual([1, 2, 4]);
    expect(report.attempts[0]?.rungs[0]?.why).toMatch(
      /^32 did not fit; measured after it failed: .* a sample, so 5 fit under .*; now 4 x 8/,
    );
    expect(printed).toContain('torch.OutOfMemoryError: CUDA out of memory');
    expect(printed).toContain('trained with 4');
  });

  it('says what it looked for where nothing tells the batch', async () => {
    write('other.yaml', 'size: 4\n');
    const { stderr, exitCode } = await command.run(
      ['run', '--adapt', '--', process.execPath, 'file.mjs', 'other.yaml'],
      { environment: { PLIMSOLL_HOME: join(command.folder(), 'home') } },
    );
    expect(stderr).toContain('nothing-to-adapt');
    expect(stderr).toContain('no line of a YAML file');
    expect(exitCode).toBe(2);
  });
});
