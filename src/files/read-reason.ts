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
