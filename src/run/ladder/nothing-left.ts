import { isKnown, type Known } from '../../units/known.js';
import { shellWords } from '../../units/shell-words.js';
import { type Placeholder, placeholdersOf } from '../placeholders.js';

/** What the ladder can change from outside, beside the batch. */
const changeable: readonly Placeholder[] = ['checkpointing', 'precision', 'offload', 'device'];

/**
 * Why there is no next attempt, and what to type so that there is one.
 *
 * @example
 * nothingLeft(['python', 'train.py'], 'unknown');
 * // 'Nothing left to try: the command has no {batch_size}. Add it: plimsoll run --batch-size 32 -- ...'
 */
export function nothingLeft(
  command: readonly string[],
  batch: Known<number>,
  /** Of `plimsoll run`, as they were given: the next one has them, too. */
  given: readonly string[] = [],
): string {
  const declared = placeholdersOf(command);
  if (!isKnown(batch)) {
    const options = '--batch-size {batch_size} --accumulate {accumulation}';
    const run = shellWords(['run', '--batch-size', '32', ...given, '--', ...command]);
    const typed = `plimsoll ${run} ${options}`;
    return `Nothing left to try: the command has no {batch_size}. Add it, by the options that the program has for it: ${typed}`;
  }
  const missing = changeable.filter((name) => !declared.has(name)).map((name) => `{${name}}`);
  return missing.length === 0
    ? 'Nothing left to try: every setting that the command takes was lowered. Give it more memory, or see what would fit: plimsoll plan --help'
    : `Nothing left to try: the batch cannot be smaller, and the command has no ${missing.join(', ')}. Add those that the program supports.`;
}
