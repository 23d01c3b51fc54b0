import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { KeptOrder } from '../job-folder.js';
import { superviseRun } from './run-attempt.js';

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'plimsoll-on-node-'));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

/** In the place of `plimsoll`: its report is what it was started with. */
const reporting = `
  const words = process.argv.slice(2);
  const { PLIMSOLL_HOME: home, PLIMSOLL_NODE_RUN: run } = process.env;
  const started = JSON.stringify({ words, home, run });
  require('node:fs').writeFileSync(words[words.indexOf('--report') + 1], started);
`;

interface Started {
  readonly words: readonly string[];
  readonly home: string;
  readonly run: string;
}

async function startedFor(given: Partial<KeptOrder>): Promise<Started> {
  const program = join(home, 'reporting.cjs');
  writeFileSync(program, reporting);
  const order: KeptOrder = {
    schema: 1,
    key: 'a',
    name: 'train',
    command: ['python', 'train.py'],
    cwd: home,
    gpus: 1,
    needBytes: 'unknown',
    basis: 'unknown',
    estimatedBytes: 'unknown',
    workloadKey: 'w',
    batch: 'unknown',
    maxAttempts: 3,
    submittedAt: '2026-11-16T00:00:00.000Z',
    plimsoll: [process.execPath, program],
    measured: join(home, 'kept', 'measured'),
    ...given,
  };
  const report = join(home, 'report.json');
  const signals = { forwardTo: () => {}, release: () => {}, wasAsked: false };
  await superviseRun({ order, limitBytes: 'none', report, home, environment: {}, signals });
  return JSON.parse(readFileSync(report, 'utf8'));
}

describe('superviseRun', () => {
  it('hands on what submit changed in the environment, so that the report of the run has it', async () => {
    const change = {
      name: 'NCCL_DEBUG',
      from: 'INFO',
      to: null,
      by: 'submit',
      reason: 'It logs.',
    } as const;
    const { words } = await startedFor({ environmentChanges: [change] });
    expect(words[0]).toBe('run');
    expect(JSON.parse(words[words.indexOf('--env-changes') + 1] ?? '')).toEqual([change]);
    expect(words.slice(-3)).toEqual(['--', 'python', 'train.py']);
  });

  it('says nothing of an environment that is as it was', async () => {
    expect((await startedFor({})).words).not.toContain('--env-changes');
  });

  it('keeps the run on the node, and gives the program the home of the person', async () => {
    const { words, home: given, run } = await startedFor({});
    expect(words[words.indexOf('--state') + 1]).toBe(home);
    expect([given, run]).toEqual([join(home, 'kept'), home]);
  });
});
