import type { IncomingMessage } from 'node:http';
import type { Failure } from '../../failure.js';
import { brokenRequest } from '../errors/refusals.js';

/**
 * Why it is doubtful where the body of a request ends. A proxy in front may see another end than we
 * do, and take the rest for a request of somebody else; the parser lets these two pass.
 */
export function judgeFraming({
  httpVersion,
  headersDistinct,
}: Pick<IncomingMessage, 'httpVersion' | 'headersDistinct'>): Failure | undefined {
  const encodings = headersDistinct['transfer-encoding'];
  if (encodings === undefined) return undefined;
  if (httpVersion !== '1.1') return brokenRequest('its version knows no transfer encoding');
  if (encodings.join(', ').toLowerCase() === 'chunked') return undefined;
  return brokenRequest('its transfer encoding is not just "chunked"');
}
