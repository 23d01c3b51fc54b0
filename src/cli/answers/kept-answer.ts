import { createHash } from 'node:crypto';
import { join } from 'node:path';
import type { Estimate } from '../../estimate/types.js';
import { homeFolder } from '../../files/folders.js';
import { answerKey, type PreparedAnswer } from '../../jobs/daemon/estimates/answer-key.js';
import type { PythonPlace } from '../../jobs/daemon/estimates/file-states.js';
import { isWholeEstimate, KeptAnswers, ownFiles } from '../../plan/answers/kept-answers.js';

/** Variables that change what Python loads, or what a model of transformers does. */
const counted =
  /^(LD_LIBRARY_PATH|VIRTUAL_ENV|PYTHON|TORCH|PYTORCH|CUDA|CUDNN|CUBLAS|HF_|TRANSFORMERS_)/;

export interface AskedAnswer<T> {
  readonly prepared: PreparedAnswer;
  /** All other settings that decide the answer. */
  readonly settings: unknown;
  readonly version: string;
  readonly place: PythonPlace;
  /** The estimate within an answer, which says whether it is worth keeping and whole. */
  readonly estimateIn: (answer: T) => Estimate;
  readonly make: () => Promise<T>;
}

/**
 * The answer to the same question of before, or a new one, which is then kept. Only what was traced is
 * kept: a formula answers at once, and torch may be installed meanwhile.
 */
export async function keptOrMade<T extends { readonly notes: readonly string[] }>(
  asked: AskedAnswer<T>,
): Promise<T> {
  const kept = new KeptAnswers(join(homeFolder(asked.place.environment), 'answers'));
  const key = await keyOf(asked);
  if (key === undefined) return asked.make();
  const found = kept.read(key);
  if (found !== undefined && isWhole(found.answer, asked)) {
    return { ...found.answer, notes: [...found.answer.notes, keptNote(found.at)] };
  }
  const made = await asked.make();
  // Where something changed meanwhile, it is unknown whether it was read before that or after.
  const worth = asked.estimateIn(made).method === 'trace' && (await keyOf(asked)) === key;
  if (worth) kept.write(key, made, new Date());
  return made;
}

/** Says that an answer was kept, and since when. */
export function keptNote(at: string): string {
  return `Kept from ${at.slice(0, 19).replace('T', ' ')} UTC: nothing that the answer depends on has changed. --no-cache estimates it again.`;
}

async function keyOf<T>({
  prepared,
  settings,
  version,
  place,
}: AskedAnswer<T>): Promise<string | undefined> {
  const key = await answerKey(prepared, place, true);
  if (key === undefined) return undefined;
  const variables = Object.entries(place.environment)
    .filter(([name]) => counted.test(name))
    .map(([name, value = '']) => `${name}=${value}`);
  const parts = [key, settings, version, place.folder, variables.toSorted(), ownFiles()];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

/** An answer that cannot be shown is made again. */
function isWhole<T extends { readonly notes: readonly string[] }>(
  answer: unknown,
  { estimateIn }: AskedAnswer<T>,
): answer is T {
  try {
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- looked at field by field here
    const estimate: unknown = estimateIn(answer as T);
    return isWholeEstimate(estimate) && Array.isArray(Reflect.get(Object(answer), 'notes'));
  } catch {
    return false;
  }
}
