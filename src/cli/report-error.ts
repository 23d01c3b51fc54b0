import type { CommanderError } from 'commander';
import { Failure } from '../failure.js';
import { codeOf, isDiskFull } from '../files/system-errors.js';
import { capitalized } from '../units/words.js';

/** An unexpected exception is a bug of ours: EX_SOFTWARE, as in sysexits.h. */
const internalErrorExitCode = 70;

export interface ErrorReport {
  readonly exitCode: number;
  /** For stderr; empty when there is nothing to say. */
  readonly text: string;
}

/** The one place that turns an error into words and an exit code. */
export function reportError(thrown: unknown, debug: boolean): ErrorReport {
  const error = withWords(thrown);
  if (error instanceof Failure) {
    const stack = debug ? `${stackOf(error)}\n` : '';
    return { exitCode: error.exitCode, text: `${line(error.code, error.message)}${stack}` };
  }
  if (isCommanderError(error)) return reportUsageError(error);
  const fact = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  const next = debug
    ? 'Please report it with the lines below.'
    : 'This is a bug in plimsoll: run it again with PLIMSOLL_DEBUG=1 and report what it prints.';
  return {
    exitCode: internalErrorExitCode,
    text: `${line('internal', `${oneLine(fact)}. ${next}`)}${debug ? `${stackOf(error)}\n` : ''}`,
  };
}

/** Errors of the operating system that any command can meet. They are not bugs in plimsoll. */
function withWords(error: unknown): unknown {
  if (isFolderGone(error)) return folderGone(error);
  if (error instanceof Failure) return error;
  if (isDiskFull(error)) return noSpace(error);
  if (/^E[MN]FILE$/.test(codeOf(error))) return tooManyFiles(error);
  return error;
}

function noSpace(cause: unknown): Failure {
  const said = cause instanceof Error ? cause.message : String(cause);
  return new Failure({
    kind: 'missing',
    code: 'disk-full',
    fact: `The disk is full, or your quota on it is used up (${said}).`,
    next: 'Make room on that disk and try again.',
    cause,
  });
}

/** The words of bin/plimsoll.js, where this module could not be read either. */
function tooManyFiles(cause: unknown): Failure {
  return new Failure({
    kind: 'missing',
    code: 'too-many-files',
    fact: 'No more files can be opened: the limit of open files is reached.',
    next: 'Allow more with "ulimit -n 1024", or close other programs.',
    cause,
  });
}

/** Node throws so wherever the current folder is asked for after it was removed. */
function isFolderGone(error: unknown): error is Error {
  return error instanceof Error && 'syscall' in error && error.syscall === 'uv_cwd';
}

function folderGone(cause: Error): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-current-folder',
    fact: 'The current folder was removed.',
    next: 'Change to a folder that exists (cd), and run the command again.',
    cause,
  });
}

/** Commander says `error: unknown option '--x'\n(Did you mean --y?)`; ours is one line. */
function reportUsageError(error: CommanderError): ErrorReport {
  // Help and version were printed already; help that was not asked for means that a command is missing.
  if (error.exitCode === 0) return { exitCode: 0, text: '' };
  if (error.code === 'commander.help') return { exitCode: 2, text: '' };
  const [said = '', suggestion = ''] = error.message.replace(/^error: /, '').split('\n');
  const fact = `${capitalized(said).replace(/\.$/, '')}.`;
  const hint = suggestion.replace(/^\((.*)\)$/, '$1');
  const next = hint === '' ? 'Add --help to see its options and examples.' : hint;
  return { exitCode: 2, text: line('bad-usage', `${fact} ${next}`) };
}

/** By shape, so that commander is not loaded only to compare classes. */
function isCommanderError(error: unknown): error is CommanderError {
  return (
    error instanceof Error &&
    'code' in error &&
    typeof error.code === 'string' &&
    error.code.startsWith('commander.')
  );
}

/** Names from outside (a path, a device) must not begin a line of their own or move the cursor. */
function line(code: string, message: string): string {
  return `plimsoll: ${`${code}: ${message}`.replaceAll(/\p{Cc}+/gu, ' ')}\n`;
}

function oneLine(text: string): string {
  return text.replaceAll(/\s*\n\s*/g, ' ').replace(/\.$/, '');
}

function stackOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? '' : `\ncaused by: ${stackOf(error.cause)}`;
  return `${error.stack ?? error.message}${cause}`;
}
