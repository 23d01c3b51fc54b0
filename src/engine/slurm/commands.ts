import { execFile } from 'node:child_process';
import { Failure } from '../../failure.js';
import { parseObject } from '../../files/own-file.js';
import type { Known } from '../../units/known.js';
import { type JsonObject, objectIn, objectsIn, textIn } from '../job-folder.js';

/** Runs a command of Slurm and answers what it printed. */
export type SlurmCommand = (
  command: string,
  words: readonly string[],
  input?: string,
) => Promise<string>;

/** A controller that is restarting answers after some tries of its own. */
const timeoutMs = 300_000;

/** The commands as this machine has them. */
export function slurmCommands(
  environment: Readonly<Record<string, string | undefined>>,
): SlurmCommand {
  return (command, words, input) =>
    new Promise((resolve, reject) => {
      const options = { env: environment, maxBuffer: maxDocumentBytes, timeout: timeoutMs };
      const child = execFile(command, [...words], options, (error, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else reject(failureOf(command, error, stderr));
      });
      // A command that ended already reads nothing.
      child.stdin?.on('error', () => {});
      child.stdin?.end(input ?? '');
    });
}

/** As Slurm's commands say that nobody answers. */
const isSilence =
  /unable to contact slurm controller|socket timed out|zero bytes were transmitted|connection (refused|timed out)/i;

function failureOf(command: string, error: Error, stderr: string): Failure {
  const code = 'code' in error ? error.code : undefined;
  if (code === 'ENOENT') {
    return new Failure({
      kind: 'missing',
      code: 'no-slurm',
      fact: `The command ${command} was not found.`,
      next: 'Run it on a machine of a Slurm cluster, or load its module.',
    });
  }
  const lines = stderr.split('\n').map((line) => line.trim());
  const said = lines.findLast((line) => /error/i.test(line)) ?? lines.find((line) => line !== '');
  if (said !== undefined && isSilence.test(said)) return silentController(command, said);
  if ('killed' in error && error.killed === true)
    return silentController(command, `nothing within ${timeoutMs / 1000} s`);
  return new Failure({
    kind: 'missing',
    code: 'slurm-refused',
    fact: `Slurm's ${command} failed: ${(said ?? error.message).slice(0, 400)}`,
    next: 'Correct what it names. Options of "plimsoll submit" that are not listed by its --help go to sbatch as they are.',
    cause: error,
  });
}

/** A cluster of some thousand nodes writes some 30 MB. */
const maxDocumentBytes = 256 * 1024 * 1024;

/** The document that a command of Slurm printed with `--json`. */
export function slurmDocument(text: string, command: string): JsonObject {
  const document = text.length > maxDocumentBytes ? undefined : parseObject(text);
  // It ends with 0 and an empty list where the controller did not answer.
  const [problem] = objectsIn(document?.['errors']);
  if (problem !== undefined) {
    throw silentController(command, textIn(problem['description']) || textIn(problem['error']));
  }
  if (document !== undefined) return document;
  throw new Failure({
    kind: 'missing',
    code: 'slurm-unreadable',
    fact: `What "${command} --json" printed is not a JSON document.`,
    next: `Run "${command} --json" yourself: Slurm 22.05 or later is needed, built with JSON.`,
  });
}

function silentController(command: string, said: string): Failure {
  return new Failure({
    kind: 'missing',
    code: 'slurm-silent',
    fact: `Slurm's controller did not answer ${command} (${said.slice(0, 400)}).`,
    next: 'Jobs that run go on without it. "scontrol ping" says whether it is up; try again then.',
  });
}

/** Slurm before 23.02 writes a number or null, later ones `{set, infinite, number}`. */
export function numberIn(value: unknown): Known<number> {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? value : 'unknown';
  const { set, infinite, number } = objectIn(value);
  return set === true && infinite !== true ? numberIn(number) : 'unknown';
}

/** Earlier versions write `a,b`, later ones a list. */
export function wordsIn(value: unknown): readonly string[] {
  const words = Array.isArray(value) ? value.map(textIn) : textIn(value).split(',');
  return words.map((word) => word.trim()).filter((word) => word !== '');
}
