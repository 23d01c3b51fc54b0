import { hydraFlags } from './hydra/hydra-flags.js';
import { type KnownFlags, knownFlags } from './known-flags.js';
import { scriptFlags } from './script-flags.js';

/** Commands with settings that they have from elsewhere. */
export interface OtherFlags {
  /** By the configuration of Hydra. */
  readonly hydra?: KnownFlags | undefined;
  /** By the options that the script declares. */
  readonly script?: KnownFlags | undefined;
}

export function otherFlags(command: readonly string[], folder: string): OtherFlags {
  return { hydra: hydraFlags(command, folder), script: scriptFlags(command, folder) };
}

/**
 * By which options a program is told its batch. What its script declares counts only where no file sets
 * a batch: the program would take what the file says.
 */
export function flagsOf(
  command: readonly string[],
  hasConfig: boolean,
  { hydra, script }: OtherFlags,
): KnownFlags | undefined {
  return hydra ?? (hasConfig ? undefined : script) ?? knownFlags(command);
}
