import { type KnownFlags, knownFlags } from './known-flags.js';

/** A setting that a command does not name, and the words that would set it. */
export interface OpenSetting {
  /** As it is typed: `--batch-size`, `trainer.batch_size`. */
  readonly flag: string;
  /** With a placeholder in the place of the number. */
  readonly words: readonly string[];
  readonly value: number;
}

/**
 * A command with settings behind it that it has from elsewhere; those that it names itself stay where
 * they are. Undefined where the batch is in neither.
 *
 * @example
 * addedFlags(['python', 'train.py'], batch, undefined)?.command;
 * // ['python', 'train.py', '--batch-size', '{batch_size}']
 */
export function addedFlags(
  command: readonly string[],
  batch: OpenSetting | undefined,
  accumulation: OpenSetting | undefined,
): KnownFlags | undefined {
  const own = knownFlags(command);
  const flag = own?.batchFlag ?? batch?.flag;
  const value = own?.batch ?? batch?.value;
  if (flag === undefined || value === undefined) return undefined;
  const words = own?.command ?? [...command, ...(batch?.words ?? [])];
  const hasAccumulation = words.some((word) => word.includes('{accumulation}'));
  const added = hasAccumulation ? undefined : accumulation;
  return {
    command: [...words, ...(added?.words ?? [])],
    batchFlag: flag,
    batch: value,
    accumulation: added?.value ?? own?.accumulation ?? 1,
  };
}
