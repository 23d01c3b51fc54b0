import { Failure } from '../../failure.js';

/** Options whose field has another name. */
const fieldNames: Readonly<Record<string, string>> = {
  arg: 'args',
  memory: 'memoryBytes',
  'max-batch': 'maxBatch',
};
const option = /--([a-z][a-z-]*[a-z])(?: (\d+|trace|formula|train|infer|cpu|int4_offload)\b)?/g;

/**
 * Estimates and plans speak of options, as most people write them. Who sent JSON reads of fields.
 *
 * @example
 * inFields('Add --seq with the tokens, such as --seq 1024.');
 * // 'Add "seq" with the tokens, such as "seq": 1024.'
 */
export function inFields(text: string): string {
  return text.replaceAll(option, (_, name: string, value: string | undefined) => {
    const field = `"${fieldNames[name] ?? name}"`;
    if (value === undefined) return field;
    return `${field}: ${/^\d/.test(value) ? value : `"${value}"`}`;
  });
}

/** Runs it; a `Failure` and the notes of the answer name fields. */
export async function withFields<T extends { readonly notes: readonly string[] }>(
  make: () => Promise<T>,
): Promise<T> {
  try {
    const answer = await make();
    return { ...answer, notes: answer.notes.map(inFields) };
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    const { kind, code, fact, next } = error;
    throw new Failure({ kind, code, fact: inFields(fact), next: inFields(next), cause: error });
  }
}
