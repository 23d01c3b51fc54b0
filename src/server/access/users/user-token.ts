import { createHash, randomBytes } from 'node:crypto';

/**
 * The token of a user: a part that names it, and 256 random bits. Only a hash is kept; a plain one is
 * enough, since 2^256 secrets cannot be tried.
 */
export interface UserToken {
  readonly token: string;
  readonly id: string;
  readonly hash: string;
}

export function newUserToken(): UserToken {
  const id = randomBytes(6).toString('hex');
  const token = `pu_${id}_${randomBytes(32).toString('base64url')}`;
  return { token, id, hash: hashOfToken(token) };
}

/** The part that may be told; undefined where it is no token of a user. */
export function tokenId(token: string): string | undefined {
  return /^pu_([\da-f]{12})_[\w-]{43}$/.exec(token)?.[1];
}

export function hashOfToken(token: string): string {
  return createHash('sha256').update(token).digest('base64url');
}
