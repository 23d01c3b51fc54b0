import { Failure } from '../../failure.js';
import { parseObject } from '../../files/own-file.js';
import type { Known } from '../../units/known.js';
import { type JsonObject, objectIn, objectsIn, textIn } from '../json-values.js';

/** A cluster of some thousand nodes writes some 30 MB. */
export const maxDocumentBytes = 256 * 1024 * 1024;

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

export function silentController(command: string, said: string): Failure {
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
