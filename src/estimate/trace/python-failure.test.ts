import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root } from '../../../test/support/project-files.js';
import { callWording } from '../wording.js';
import { pythonFailure, pythonNextStep } from './python-failure.js';

const ended = (code: number | null, stdout: string, stderr = '') => ({
  code,
  signal: null,
  stdout,
  stderr,
});
const printed = (parts: object) => `hello\n${JSON.stringify({ error: parts })}\n`;

describe('pythonFailure', () => {
  it('is none when Python left a trace', () => {
    expect(pythonFailure('python3', ended(0, 'hello\n'), true)).toBeUndefined();
  });

  it('tells the error of a script in one line, with where', () => {
    const error = {
      code: 'model-failed',
      fact: 'RuntimeError: no\nCUDA',
      next: 'check the script',
      where: 'train.py:7',
    };
    const failure = pythonFailure('python3', ended(2, printed(error)), false);
    expect(failure).toMatchObject({
      kind: 'input',
      exitCode: 2,
      code: 'model-failed',
      message: 'RuntimeError: no CUDA (train.py:7). Check the script.',
    });
  });

  it('tells a missing package by exit code 3', () => {
    const error = { code: 'torch-missing', fact: 'torch is not installed', next: 'install it' };
    const failure = pythonFailure('python3', ended(3, printed(error)), false);
    expect(failure).toMatchObject({ kind: 'missing', code: 'torch-missing' });
    expect(failure?.message).toBe('Torch is not installed. Install it.');
  });

  it('writes a command as one', () => {
    const error = { code: 'torch-missing', fact: 'no torch', next: 'pip install torch' };
    const failure = pythonFailure('python3', ended(3, printed(error)), false);
    expect(failure?.next).toBe('Run pip install torch.');
  });

  it('says what to do as its reader names it, and leaves the words of others alone', () => {
    const wording = { ...callWording, name: (setting: string) => `<${setting}>` };
    const error = { code: 'lora-refused', fact: 'peft: no --rank', next: 'leave --lora out' };
    expect(pythonFailure('python3', ended(2, printed(error)), false, wording)).toMatchObject({
      fact: 'Peft: no --rank.',
      next: 'Leave <lora> out.',
    });
    const script = { code: 'script-failed', fact: 'SystemExit: --data is missing', next: 'fix it' };
    expect(pythonFailure('python3', ended(2, printed(script)), false, wording)).toMatchObject({
      fact: 'SystemExit: --data is missing.',
      next: 'Fix it.',
    });
    const missing = pythonFailure('python3', { notStarted: 'ENOENT' }, false, wording);
    expect(missing?.next).toContain('or name another as python.');
  });

  it.each([
    [{ notStarted: 'ENOENT' }, 'missing', 'python-missing'],
    [{ timedOutSeconds: 600 }, 'job', 'trace-too-slow'],
    [ended(1, '', 'Traceback:\nKeyError: 3'), 'job', 'trace-crashed'],
    [ended(0, 'a script that ended itself'), 'job', 'trace-crashed'],
    [ended(2, '{"error":7}'), 'job', 'trace-crashed'],
    [{ ...ended(null, ''), signal: 'SIGKILL' as const }, 'job', 'trace-crashed'],
    [
      ended(1, '', "/usr/bin/python3: No module named 'plimsoll'"),
      'missing',
      'python-part-missing',
    ],
  ])('%j is %s, %s', (end, kind, code) => {
    expect(pythonFailure('python3', end, false)).toMatchObject({ kind, code });
  });

  it('shows the last line of what a crash printed', () => {
    const failure = pythonFailure('python3', ended(1, '', 'Traceback:\nKeyError: 3\n'), false);
    expect(failure?.fact).toBe('"python3" ended with exit code 1 and left no trace: KeyError: 3');
  });

  it('says by which signal it crashed, and where', () => {
    const end = { ...ended(null, '', 'terminate called\n'), signal: 'SIGABRT' as const };
    const failure = pythonFailure('python3', { ...end, crashedAt: 'train.py:7' }, false);
    expect(failure?.fact).toBe(
      '"python3" crashed by SIGABRT at train.py:7 and left no trace: terminate called',
    );
  });
});

/** Failures of the Python part: the code, and whatever texts come with it. */
const failures = readdirSync(join(root, 'python/plimsoll_trace'), {
  recursive: true,
  encoding: 'utf8',
})
  .filter((file) => file.endsWith('.py'))
  .map((file) => readFileSync(join(root, 'python/plimsoll_trace', file), 'utf8'))
  .flatMap((text) => text.split('Failure(').slice(1))
  .map((text) => /^\s*"([a-z-]+)",([\s\S]*?)\n?\s*\)(?: from|\n)/.exec(text))
  .flatMap((found) => (found === null ? [] : [{ code: found[1] ?? '', texts: found[2] ?? '' }]));

/** Arguments that TypeScript wrote wrongly: no reader can help it. */
const ours = new Set(['bad-arguments', 'bad-argument']);

describe('pythonNextStep', () => {
  it('stands in for every next step of the Python part that names an argument', () => {
    const naming = failures.filter(({ texts }) => /--[a-z]/.test(texts)).map(({ code }) => code);
    expect(naming.length).toBeGreaterThan(8);
    const missing = naming.filter((code) => pythonNextStep(code, callWording) === undefined);
    expect(missing.filter((code) => !ours.has(code))).toEqual([]);
  });

  it('is for codes that the Python part has', () => {
    const codes = failures.map(({ code }) => code);
    expect(codes).toContain('no-checkpointing');
    expect(pythonNextStep('no-checkpointing', callWording)).toBe('Leave checkpointing out.');
    expect(pythonNextStep('constructor', callWording)).toBeUndefined();
  });
});
