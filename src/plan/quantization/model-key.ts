import { createHash } from 'node:crypto';

/** File systems take 255 bytes; the hash, its dash and the ending need some of them. */
const readableLength = 80;
const hashLength = 12;

/**
 * A file name for a model, readable and safe whatever the model is called: no separators, no dots in
 * front, and a hash so that two models never share one.
 *
 * @example
 * modelKey('cyberagent/calm3-22b-chat'); // 'cyberagent-calm3-22b-chat-' and 12 hexadecimal digits
 */
export function modelKey(model: string): string {
  const readable = model
    .replaceAll(/[^A-Za-z0-9._-]+/g, '-')
    .replace(/^[.-]+/, '')
    .slice(0, readableLength);
  const hash = createHash('sha256').update(model).digest('hex').slice(0, hashLength);
  return readable === '' ? hash : `${readable}-${hash}`;
}
