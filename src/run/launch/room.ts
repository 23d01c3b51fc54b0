import { rmSync, statSync, writeFileSync } from 'node:fs';
import type { LaunchFiles } from './launch.js';

/**
 * Takes the room for the exit code of a program before it begins. On a full disk this throws, and the
 * program is not begun: how it ended could not be written down.
 */
export function takeRoom({ exitCode, keeperPid }: LaunchFiles): void {
  // A keeper that found no room for its pid began nothing, and left its file empty: the next one needs
  // the place. A keeper that runs was found before, by the table of processes.
  if (statSync(keeperPid, { throwIfNoEntry: false })?.size === 0) rmSync(keeperPid);
  releaseRoom(exitCode);
  try {
    writeFileSync(`${exitCode}.new`, 'xxx\n', { mode: 0o600, flag: 'wx' });
  } catch (error) {
    releaseRoom(exitCode);
    throw error;
  }
}

/** Gives back what was not used, whatever has its name. */
export function releaseRoom(exitCode: string): void {
  rmSync(`${exitCode}.new`, { recursive: true, force: true });
}
