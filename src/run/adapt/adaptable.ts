import { Failure } from '../../failure.js';
import { placeholdersOf } from '../placeholders.js';
import type { AdaptedConfig } from './adapted-config.js';
import { flagsOf, type OtherFlags } from './other-flags.js';

/** A command that can be started with another batch, and the batch that it begins with. */
export interface Adaptable {
  readonly command: readonly string[];
  readonly batchSize: number;
  readonly accumulation: number;
  /** The config file named by the command that sets the batch. */
  readonly config?: AdaptedConfig;
}

/**
 * The command of `run --adapt`: its own options become placeholders, and so do settings that it has
 * from Hydra. Where it has neither, the first of the YAML files that it names is changed; where there is
 * none, the options that its script declares stand behind it.
 *
 * @example
 * adaptable(['python', 'train.py', '--batch-size', '8']).batchSize; // 8
 */
export function adaptable(
  command: readonly string[],
  files: readonly AdaptedConfig[] = [],
  { hydra, script }: OtherFlags = {},
): Adaptable {
  const [placeholder] = placeholdersOf(command);
  if (placeholder !== undefined) {
    throw new Failure({
      kind: 'input',
      code: 'nothing-to-adapt',
      fact: `The command has {${placeholder}}, so --adapt has nothing to change in it.`,
      next: 'Leave --adapt out, and say the batch to begin with: --batch-size 32.',
    });
  }
  const [config] = files;
  const flags = flagsOf(command, config !== undefined, { hydra, script });
  if (flags === undefined && config !== undefined) {
    const { batch, accumulation } = config;
    return { command, batchSize: batch.value, accumulation: accumulation?.value ?? 1, config };
  }
  if (flags === undefined) {
    throw new Failure({
      kind: 'input',
      code: 'nothing-to-adapt',
      fact: 'No option of the command or of its script, and no line of a YAML file that it names or that configures it by Hydra, was recognised as its batch size.',
      next: 'Write {batch_size} where the command takes it, such as: plimsoll run --batch-size 32 -- python train.py --size {batch_size}',
    });
  }
  const { batch, accumulation } = flags;
  return { command: flags.command, batchSize: batch, accumulation };
}
