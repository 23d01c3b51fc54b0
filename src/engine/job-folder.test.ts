import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { JobFolder, type KeptAttempt, type KeptEnd, type KeptOrder } from './job-folder.js';

let path: string;
beforeEach(() => {
  path = mkdtempSync(join(tmpdir(), 'plimsoll-job-folder-'));
  for (const name of ['started', 'ended']) mkdirSync(join(path, name));
});
afterEach(() => rmSync(path, { recursive: true }));

const isNone = (document: object): document is never => document === undefined;
const none = { isOrder: isNone, isAttempt: isNone, isEnd: isNone };

describe('mayRun', () => {
  const longMs = 3_600_000;
  const folder = () => new JobFolder<KeptOrder, KeptAttempt, KeptEnd>(path, none);

  it('is so from when a node marks it as running until it marks it as ended', () => {
    expect(folder().mayRun(longMs)).toBe(false);
    folder().markRunning('7', 0);
    expect(folder().mayRun(longMs)).toBe(true);
    expect(folder().mayRun(0)).toBe(false);
    folder().markEnded('7', 0);
    expect(folder().mayRun(longMs)).toBe(false);
  });

  it('does not read a file that a node is writing: it may be gone at once', () => {
    // Listed, and nothing is there when it is read.
    symlinkSync(join(path, 'gone'), join(path, 'started', '7.0.0123456789ab.tmp'));
    expect(folder().mayRun(longMs)).toBe(false);
    folder().markRunning('7', 0);
    expect(folder().mayRun(longMs)).toBe(true);
  });
});
