import type { ServeRoom } from '../../estimate/serving/serve-estimate.js';
import { formatBytes } from '../../units/bytes.js';
import { count } from '../words.js';

/**
 * What a server of a model has room for, for people.
 *
 * @example
 * serveText(answer.serve); // 'Room for 34 requests of 8,192 tokens at once ...'
 */
export function serveText(room: ServeRoom): string {
  const { engine, maxModelLen, requests, tokens } = room;
  const length = `${maxModelLen.toLocaleString('en-US')} tokens`;
  const headline =
    requests === 0
      ? `Not one request of ${length} fits (calculated, ${engine}).`
      : `Room for ${count(requests, 'request')} of ${length} at once (calculated, ${engine}).`;
  const rows: readonly (readonly [string, string])[] = [
    ['weights', formatBytes(room.weightsBytes)],
    ['working memory', formatBytes(room.workingBytes)],
    ['cache', `${formatBytes(room.kvCacheBytes)}, ${tokens.toLocaleString('en-US')} tokens`],
    ['a token of it', `${formatBytes(room.kvBytesPerToken)} (${room.kvPrecision})`],
    ['a full request', formatBytes(room.kvBytesPerRequest)],
  ];
  return [headline, '', ...rows.map(([name, value]) => `  ${name.padEnd(16)}${value}`)].join('\n');
}
