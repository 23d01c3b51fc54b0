import { createHash } from 'node:crypto';
import { hostname } from 'node:os';
import {
  estimateProgram,
  type ProgramMachine,
  type ProgramRequest,
  programState,
} from '../../../estimate/program-estimate.js';
import { isProgramFiles, type ProgramFiles } from '../../../estimate/trace/trace-file.js';
import type { Estimate } from '../../../estimate/types.js';
import { isWholeEstimate, type KeptAnswers, ownFiles } from '../../../plan/answers/kept-answers.js';
import type { ConcurrencyLimit } from '../limit-concurrency.js';

/** A program may depend on more than its files: what it finds in the network is looked at anew after a day. */
const maxAgeMs = 86_400_000;

/** Variables of a terminal or a session: no program trains otherwise by them. */
const ofTerminal =
  /^(_|SHLVL|PWD|OLDPWD|TERM(_.*)?|COLORTERM|COLUMNS|LINES|PS\d|DISPLAY|WAYLAND_DISPLAY|WINDOWID|SSH_.*|TMUX.*|STY|XDG_SESSION_.*|XDG_VTNR|XDG_SEAT|DBUS_.*|LS_COLORS|LESS.*|PAGER|EDITOR|VISUAL|HIST.*|VSCODE_.*|GPG_.*|INVOCATION_ID|JOURNAL_STREAM|SYSTEMD_.*)$/;

export interface KeptProgramsOptions {
  readonly kept: KeptAnswers;
  readonly version: string;
  /** Whose program it is, where others ask the same process. */
  readonly owner?: string | undefined;
  /** The time as a date. */
  readonly now?: (() => Date) | undefined;
  /** When a trace has its turn; at once where it is left out. */
  readonly withLimit?: ConcurrencyLimit | undefined;
}

/** An estimate, and when it was made, in UTC, where that was before. */
export interface KeptEstimate {
  readonly estimate: Estimate;
  readonly keptAt?: string | undefined;
}

/**
 * The estimate of a program: of the last day, where nothing that it depends on has changed since, or a new one, which is
 * then kept. It depends on the command, its folder and variables, the card, and on the files that the trace saw: those
 * that the program read, and its packages. Where they are not all known, nothing is kept.
 *
 * @example
 * const kept = new KeptAnswers('/srv/plimsoll/answers');
 * const { estimate } = await keptProgram({ command, gpu }, machine, { kept, version: '1.0.0' });
 */
export async function keptProgram(
  request: ProgramRequest,
  machine: ProgramMachine,
  { kept, version, owner, now = () => new Date(), withLimit = atOnce }: KeptProgramsOptions,
): Promise<KeptEstimate> {
  const { command } = request;
  const key = keyOf(request, machine, [version, owner ?? null]);
  const found = kept.read(key);
  if (found !== undefined && isFresh(found.at, now()) && isKeptProgram(found.answer)) {
    const { estimate, files, state } = found.answer;
    if ((await programState(command, files, machine)) === state) {
      return { estimate, keptAt: found.at };
    }
  }
  let begun = now();
  let files: ProgramFiles | undefined;
  const estimate = await withLimit(() => {
    begun = now();
    return estimateProgram(request, {
      ...machine,
      onTrace: (trace) => {
        files = trace.files;
        machine.onTrace?.(trace);
      },
    });
  });
  const state = files && (await programState(command, files, machine, begun));
  if (state !== undefined) kept.write(key, { estimate, files, state }, now());
  return { estimate };
}

const atOnce: ConcurrencyLimit = (work) => work();

/** Makes a key of the request and of all that decides the answer beside files. */
function keyOf(
  { command, gpu, cards, inCopy }: ProgramRequest,
  { folder, environment, python }: ProgramMachine,
  more: readonly unknown[],
): string {
  const variables = Object.entries(environment)
    .filter(([name, value]) => value !== undefined && !ofTerminal.test(name))
    .toSorted(([one], [other]) => (one < other ? -1 : 1));
  const asked = ['program', command, folder, variables, python, gpu, cards, inCopy, hostname()];
  return createHash('sha256')
    .update(JSON.stringify([...asked, ownFiles(), ...more]))
    .digest('hex');
}

function isFresh(at: string, now: Date): boolean {
  const age = now.getTime() - Date.parse(at);
  return age >= 0 && age < maxAgeMs;
}

interface KeptProgram {
  readonly estimate: Estimate;
  readonly files: ProgramFiles;
  readonly state: string;
}

/** A file may have been edited. */
function isKeptProgram(answer: unknown): answer is KeptProgram {
  const field = (name: string): unknown => Reflect.get(Object(answer), name);
  return (
    isWholeEstimate(field('estimate')) &&
    isProgramFiles(field('files')) &&
    typeof field('state') === 'string'
  );
}
