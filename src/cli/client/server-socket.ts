import { type Stats, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { Failure } from '../../failure.js';

/** Whether a server of this machine listens there for all accounts, or did before it was killed. */
export function hasSharedSocket(path: string): boolean {
  const stats = statOf(path);
  return stats?.isSocket() === true && isSafe(path, stats, process.getuid?.());
}

/**
 * Refuses a socket that another account could have put there: it would be sent jobs and their
 * secrets. One that is not there is found out when it is asked.
 */
export function checkSocket(path: string, uid = process.getuid?.()): void {
  const stats = statOf(path);
  if (stats === undefined || isSafe(path, stats, uid)) return;
  throw new Failure({
    kind: 'input',
    code: 'unsafe-socket',
    fact: `Another account could have put the socket ${path} there.`,
    next: 'Use one in a folder that only root, or the account of the server, can write to.',
  });
}

function statOf(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch {
    // Its folder is closed to us, and so is the socket.
    return undefined;
  }
}

/** Only root, we, or the owner of the folder can have put it there, or can replace it. */
function isSafe(path: string, { uid: owner }: Stats, uid: number | undefined): boolean {
  const folder = statSync(dirname(path));
  const isOurs = owner === 0 || owner === uid;
  const isOpen = (folder.mode & 0o022) !== 0;
  const isSticky = (folder.mode & 0o1000) !== 0;
  return isOpen ? isOurs && isSticky : isOurs || owner === folder.uid;
}
