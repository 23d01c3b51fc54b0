import { rmSync, statfsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Bytes that a supervisor writes before its program begins: some files of a block each. */
const roomBytes = 64 * 1024;
/** Size of a trial write: small, because others need the remaining space. */
const trialBytes = 4096;

/** Returns the error of a full disk; also for a write cut short, since the next one would fail with it. */
export function diskFull(): Error {
  return Object.assign(new Error('no space left on device'), { code: 'ENOSPC' });
}

export function isDiskFull(error: unknown): boolean {
  return error instanceof Error && 'code' in error && /^(ENOSPC|EDQUOT)$/.test(String(error.code));
}

/** Whether a few small files can be written into a folder. Only a write tells of a quota. */
export function hasRoom(folder: string): boolean {
  const { bavail, bsize } = statfsSync(folder);
  if (bavail * bsize < roomBytes) return false;
  const trial = join(folder, `room-${process.pid}`);
  try {
    writeFileSync(trial, Buffer.alloc(trialBytes), { mode: 0o600 });
    return true;
  } catch (error) {
    if (isDiskFull(error)) return false;
    throw error;
  } finally {
    rmSync(trial, { force: true });
  }
}

/** The code of an error of the system, such as ENOENT; empty where it has none. */
export function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : '';
}

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or folder',
  ENOTDIR: 'a part of its path is not a folder',
  EISDIR: 'it is a folder',
  EACCES: 'permission is denied',
  EPERM: 'permission is denied',
  ELOOP: 'it is a link that leads back to itself',
  ENAMETOOLONG: 'its name is too long',
  EIO: 'the disk gives an error',
};

/**
 * Why a file could not be read, in words for people.
 *
 * @example
 * readReason(Object.assign(new Error('ENOENT: ...'), { code: 'ENOENT' })); // 'there is no such ...'
 */
export function readReason(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return ('code' in error ? reasons[String(error.code)] : undefined) ?? error.message;
}
