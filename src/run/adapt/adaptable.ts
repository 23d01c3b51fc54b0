import { Failure } from '../../failure.js';
import { placeholdersOf } from '../placeholders.js';
import { knownFlags } from './known-flags.js';

/** A command that can be started with another batch, and the batch that it begins with. */
export interface Adaptable {
  readonly command: readonly string[];
  readonly batchSize: number;
  readonly accumulation: number;
}

/**
 * The command of `run --adapt`: its own options become placeholders.
 *
 * @example
 * adaptable(['python', 'train.py', '--batch-size', '8']).batchSize; // 8
 */
export function adaptable(command: readonly string[]): Adaptable {
  const [placeholder] = placeholdersOf(command);
  if (placeholder !== undefined) {
    throw new Failure({
      kind: 'input',
      code: 'nothing-to-adapt',
      fact: `The command has {${placeholder}}, so --adapt has nothing to change in it.`,
      next: 'Leave --adapt out, and say the batch to begin with: --batch-size 32.',
    });
  }
  const flags = knownFlags(command);
  if (flags === undefined) {
    throw new Failure({
      kind: 'input',
      code: 'nothing-to-adapt',
      fact: 'No option of the command was recognised as its batch size.',
      next: 'Write {batch_size} where the command takes it, such as: plimsoll run --batch-size 32 -- python train.py --size {batch_size}',
    });
  }
  const { batch, accumulation } = flags;
  return { command: flags.command, batchSize: batch, accumulation };
}
