import { readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';

/** What servers write before they move it into place: the name, and the process that wrote it. */
const temporary =
  /^(?:(?:token|server\.json)\.(\d+)\.tmp|jobs\.db\.new-(\d+)(?:-journal|-wal|-shm)?)$/;

/**
 * Removes files that servers left half-written when they were killed. Another server may be starting
 * in the same home: what belongs to a living process stays.
 */
export function removeStaleTemporaries(home: string, isAlive: (pid: number) => boolean): void {
  for (const name of readdirSync(home)) {
    const [, ofFile, ofStore] = temporary.exec(name) ?? [];
    const pid = ofFile ?? ofStore;
    if (pid !== undefined && !isAlive(Number(pid))) rmSync(join(home, name), { force: true });
  }
}

/** A process of another user counts as alive. */
export function isProcessAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
