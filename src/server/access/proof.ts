import { createHmac } from 'node:crypto';
import { isSameSecret } from './token.js';

/**
 * Shows that a server knows the token without sending it: what it answers to `nonce`. A client asks
 * for it before it sends a token or a job, since another program may have taken the port.
 */
export function proofOf(token: string, nonce: string): string {
  return createHmac('sha256', token).update(`plimsoll server ${nonce}`).digest('base64url');
}

export function isProof(given: string, token: string, nonce: string): boolean {
  return isSameSecret(given, proofOf(token, nonce));
}
