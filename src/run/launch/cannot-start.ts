import { statSync } from 'node:fs';
import { Failure } from '../../failure.js';

/** What to do about the errors of a start that have a cause of their own. */
const nextSteps: Readonly<Record<string, string>> = {
  E2BIG: 'Its arguments and its environment are too long for this system: pass less of them.',
  EAGAIN: 'This user has as many processes as it may: end some, or raise "ulimit -u".',
  ENOMEM: 'The machine has no memory left to start it: end something, and try again.',
  EMFILE: 'Too many files are open: raise "ulimit -n".',
};

/** Why a program could not even be started. */
export function cannotStart(error: unknown, folder: string): Failure {
  if (!isFolder(folder)) {
    return new Failure({
      kind: 'input',
      code: 'no-such-folder',
      fact: `The folder ${folder}, in which the program should start, no longer exists.`,
      next: 'Create it again, or choose another folder, and start the program again.',
      cause: error,
    });
  }
  const { message, code } = { message: String(error), code: '', ...plain(error) };
  return new Failure({
    kind: 'missing',
    code: 'cannot-start',
    fact: `The program could not be started: ${message}.`,
    next: nextSteps[code] ?? `Check that its folder ${folder} can be entered, and try again.`,
    cause: error,
  });
}

function plain(error: unknown): { message?: string; code?: string } {
  if (!(error instanceof Error)) return {};
  return { message: error.message, code: 'code' in error ? String(error.code) : '' };
}

function isFolder(path: string): boolean {
  try {
    return statSync(path).isDirectory();
  } catch {
    return false;
  }
}
