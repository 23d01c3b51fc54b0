import { chmodSync, cpSync, existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { GiB } from '../../src/units/bytes.js';
import { needsTorch, tracingPython as python } from '../support/needs.js';
import { root } from '../support/project-files.js';
import { useCommand } from './command.js';
import { useHome } from './served.js';

const command = useCommand();

/** A server with a simulated GPU of 24 GiB, of which nothing is used. */
async function servingGpu() {
  const home = useHome(command);
  const trace = join(command.folder(), 'idle.json');
  const columns = ['seconds', 'allocated', 'reserved', 'device_used'];
  const rows = [0, 1].map((seconds) => [seconds, 0, 0, 0]);
  writeFileSync(trace, JSON.stringify({ capacity: 24 * GiB, columns, rows }));
  const serving = await home.serve([], { PLIMSOLL_SIMULATE: trace });
  return { home, serving };
}

/** In Python's place: takes its time to trace, then runs out of it; as a job it ends at once. */
function slowPython(): string {
  const path = join(command.folder(), 'python3');
  writeFileSync(path, '#!/bin/sh\ncase "$*" in *plimsoll.trace*) exec sleep 1000;; esac\n');
  chmodSync(path, 0o755);
  return path;
}

describe('plimsoll submit -- python train.py, with nothing stated', () => {
  it('falls back to a whole device where the trace takes too long, and answers meanwhile', async () => {
    const { home, serving } = await servingGpu();
    const words = ['--estimate-timeout', '2', '--', slowPython(), 'train.py'];
    const submitted = home.json(['submit', ...words]);
    expect((await serving.ask('/healthz')).status).toBe(200);
    const job = await submitted;
    expect(job).toMatchObject({ need: { basis: 'unknown', estimatedBytes: 'unknown' } });
    expect(JSON.stringify(job['need'])).toContain(
      'It could not be traced: The trace took longer than 2 s and was ended.',
    );
  });

  it('does not trace where it is told so, and refuses a time that is none', async () => {
    const { home } = await servingGpu();
    const job = await home.json(['submit', '--estimate-timeout=0', '--', slowPython(), 't.py']);
    expect(JSON.stringify(job['need'])).not.toContain('traced');
    const bad = await home.run(['submit', '--estimate-timeout', 'soon', '--', 'python3', 't.py']);
    expect(bad.exitCode).toBe(2);
    expect(bad.stderr).toContain('--estimate-timeout');
  });

  it('reserves what a real trace found, and keeps the answer', needsTorch, async () => {
    const { home } = await servingGpu();
    const folder = command.folder();
    cpSync(join(root, 'test/fixtures/programs/train_small.py'), join(folder, 'train_small.py'));
    const words = ['--estimate-timeout', '600', '--gpus', '1', '--', python, 'train_small.py'];
    const first = await home.json(['submit', ...words, '--batch-size', '64']);
    const need: { bytes: number; why: string; basis: string } = JSON.parse(
      JSON.stringify(first['need']),
    );
    expect(need.basis).toBe('estimated');
    expect(need.why).toContain('The program was traced before its first run.');
    // 146 MiB of PyTorch's and the context of the card; far from the whole device.
    expect(need.bytes).toBeGreaterThan(0.5 * GiB);
    expect(need.bytes).toBeLessThan(2 * GiB);
    expect(existsSync(join(folder, 'small.pt'))).toBe(false);
  });
});
