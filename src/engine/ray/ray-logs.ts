import { objectIn, textIn } from '../json-values.js';
import type { RayHttp } from './http.js';

/** More than this is answered in several pieces. */
const maxPieceBytes = 8 * 1024 * 1024;

/**
 * What attempts printed, through Ray. A log is lost with its node: what was seen of it before stays,
 * so that a reader who follows it loses no bytes of the next attempt.
 */
export class RayLogs {
  readonly #http: RayHttp;
  readonly #seen = new Map<string, Buffer>();

  constructor(http: RayHttp) {
    this.#http = http;
  }

  /** From this byte on, of all attempts in a row. */
  async read(ids: readonly string[], from: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    let skip = from;
    let room = maxPieceBytes;
    for (const id of ids) {
      const log = await this.#log(id);
      const piece = log.subarray(skip, skip + room);
      pieces.push(piece);
      room -= piece.length;
      skip = Math.max(0, skip - log.length);
    }
    return Buffer.concat(pieces);
  }

  async #log(id: string): Promise<Buffer> {
    const before = this.#seen.get(id) ?? Buffer.alloc(0);
    let answer: unknown;
    try {
      answer = await this.#http.get(`/api/jobs/${id}/logs`);
    } catch (error) {
      // A node that is gone, or one that has not begun: Ray answers with an error.
      if (error instanceof Error && 'code' in error && error.code === 'ray-refused') return before;
      throw error;
    }
    const log = Buffer.from(textIn(objectIn(answer)['logs']));
    if (log.length < before.length) return before;
    this.#seen.set(id, log);
    return log;
  }
}
