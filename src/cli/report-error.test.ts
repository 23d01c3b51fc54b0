import { CommanderError } from 'commander';
import { describe, expect, it } from 'vitest';
import { Failure } from '../failure.js';
import { reportError } from './report-error.js';

const failure = (kind: 'input' | 'missing' | 'job' | 'interrupted') =>
  new Failure({ kind, code: 'some-code', fact: 'A fact.', next: 'Do this.' });

describe('reportError', () => {
  it.each([
    ['input', 2],
    ['missing', 3],
    ['job', 4],
    ['interrupted', 130],
  ] as const)('gives a Failure of kind %s the exit code %i', (kind, exitCode) => {
    expect(reportError(failure(kind), false)).toEqual({
      exitCode,
      text: 'plimsoll: some-code: A fact. Do this.\n',
    });
  });

  it('puts usage errors into our form and keeps the suggestion', () => {
    const error = new CommanderError(
      1,
      'commander.unknownOption',
      "error: unknown option '--x'\n(Did you mean --y?)",
    );
    expect(reportError(error, false)).toEqual({
      exitCode: 2,
      text: "plimsoll: bad-usage: Unknown option '--x'. Did you mean --y?\n",
    });
  });

  it.each(['ENOSPC', 'EDQUOT'])('says that the disk is full where the system says %s', (code) => {
    const error = Object.assign(new Error(`${code}: no space left on device, write`), { code });
    expect(reportError(error, false)).toEqual({
      exitCode: 3,
      text: `plimsoll: disk-full: The disk is full, or your quota on it is used up (${code}: no space left on device, write). Make room on that disk and try again.\n`,
    });
  });

  it.each(['EMFILE', 'ENFILE'])('says what to do where the system says %s', (code) => {
    const error = Object.assign(new Error(`${code}: too many open files, open 'x'`), { code });
    const { exitCode, text } = reportError(error, false);
    expect(exitCode).toBe(3);
    expect(text).toMatch(/^plimsoll: too-many-files: .* "ulimit -n 1024", or close/);
  });

  it('says nothing more when help was asked for', () => {
    const help = new CommanderError(0, 'commander.helpDisplayed', '(outputHelp)');
    expect(reportError(help, false)).toEqual({ exitCode: 0, text: '' });
  });

  it('calls anything else a bug, in one line, with the stack only when asked', () => {
    const error = new TypeError('x is not\n a function');
    const { exitCode, text } = reportError(error, false);
    expect(exitCode).toBe(70);
    expect(text).toMatch(/^plimsoll: internal: TypeError: x is not a function\. .*report.*\n$/);
    expect(reportError(error, true).text).toContain('    at ');
    expect(reportError('thrown text', false).text).toContain('internal: thrown text.');
  });

  it('lets no name from outside write on the terminal', () => {
    const parts = { kind: 'input', code: 'no-file', next: 'Check it.' } as const;
    const error = new Failure({ ...parts, fact: 'a\u001B[2Jb\nc is missing.' });
    expect(reportError(error, false).text).toBe(
      'plimsoll: no-file: a [2Jb c is missing. Check it.\n',
    );
  });

  it('shows the cause of a failure when asked', () => {
    const cause = new Error('disk on fire');
    const error = new Failure({ kind: 'input', code: 'c', fact: 'F.', next: 'N.', cause });
    expect(reportError(error, false).text).not.toContain('disk on fire');
    expect(reportError(error, true).text).toContain('caused by: Error: disk on fire');
  });
});
