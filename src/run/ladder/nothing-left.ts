import { isKnown, type Known } from '../../units/known.js';
import { shellWords } from '../../units/shell-words.js';
import { type Placeholder, placeholdersOf } from '../placeholders.js';

/** What the ladder can change from outside, beside the batch. */
const changeable: readonly Placeholder[] = ['checkpointing', 'precision', 'offload', 'device'];
const oneSample = 'Nothing left to try: one sample at a time does not fit';

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
  const missing = changeable.filter((name) => !declared.has(name));
  const [first] = missing;
  if (first === undefined) {
    return 'Nothing left to try: every setting that the command takes was lowered. Give it more memory, or see what would fit: plimsoll plan --help';
  }
  const names = missing.map((name) => `{${name}}`).join(', ');
  const turnOn =
    'Turn on gradient checkpointing or bf16 in the program, or use a shorter sequence.';
  // A batch that stands in a file is changed by --adapt, which takes no placeholder beside it.
  if (!declared.has('batch_size')) return `${oneSample}. ${turnOn}`;
  const run = shellWords(['run', '--batch-size', String(batch), ...given, '--', ...command]);
  return `${oneSample}, and the command has no ${names}. ${turnOn} Or add those that the program has an option for, such as: plimsoll ${run} --${first} {${first}}`;
}
