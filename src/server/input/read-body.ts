import type { IncomingMessage } from 'node:http';
import {
  badJson,
  bodyTooLarge,
  clientLeft,
  packedBody,
  tooManyBodies,
  wrongContentType,
} from '../errors/refusals.js';
import { serverLimits } from '../http/limits.js';

interface BodyLimits {
  readonly maxBytes: number;
  readonly bodies: IncomingBytes;
}

/** The JSON that a request of ours carries. */
export async function readJsonBody(
  incoming: IncomingMessage,
  limits: BodyLimits,
): Promise<unknown> {
  return checkShape(await readJson(incoming, limits));
}

/**
 * Any JSON. A body over the limit is refused as soon as it is known to be one, by its own word or by
 * what came; what came is let go of.
 */
export async function readJson(incoming: IncomingMessage, limits: BodyLimits): Promise<unknown> {
  const { 'content-type': contentType, 'content-encoding': packing } = incoming.headers;
  if (!isJson(contentType)) throw wrongContentType(contentType);
  // Nothing is unpacked: a few bytes could become millions.
  if (packing !== undefined) throw packedBody(packing);
  const { maxBytes } = limits;
  if (Number(incoming.headers['content-length'] ?? 0) > maxBytes) throw bodyTooLarge(maxBytes);
  return parseJson(await readBytes(incoming, limits));
}

/** A page of another site cannot send this type without asking us first, and we say no. */
function isJson(contentType: string | undefined): boolean {
  return /^application\/json *(; *charset="?utf-?8"? *)?$/i.test(contentType ?? '');
}

function readBytes(incoming: IncomingMessage, { maxBytes, bodies }: BodyLimits): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const end = (): void => {
      bodies.remove(size);
      incoming.off('data', take).off('end', finish).off('error', leave).off('close', leave);
    };
    const take = (chunk: Buffer): void => {
      size += chunk.length;
      bodies.add(chunk.length);
      chunks.push(chunk);
      if (size <= maxBytes && !bodies.isTooMuch) return;
      end();
      // The rest is thrown away, and the connection closed, by the code that answers.
      incoming.pause();
      reject(size > maxBytes ? bodyTooLarge(maxBytes) : tooManyBodies());
    };
    const finish = (): void => {
      end();
      resolve(Buffer.concat(chunks));
    };
    const leave = (): void => {
      end();
      reject(clientLeft());
    };
    incoming.on('data', take).on('end', finish).on('error', leave).on('close', leave);
    // One that is gone already tells nothing more.
    if (incoming.destroyed) leave();
  });
}

function parseJson(bytes: Buffer): unknown {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes);
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw badJson(reason(bytes, error));
  }
}

/** Returns the place of the error, as far as the parser knows it. */
function reason(bytes: Buffer, error: unknown): string {
  if (bytes.length === 0) return 'it is empty';
  if (!(error instanceof SyntaxError)) return 'it is not UTF-8';
  const at = /at position \d+/.exec(error.message)?.[0];
  if (/end of JSON input/i.test(error.message)) return 'it ends too early';
  return at === undefined ? 'it breaks somewhere' : `it breaks ${at}`;
}

/** Bodies that are still coming in, all together: those who send slowly hold what they sent. */
export class IncomingBytes {
  #bytes = 0;

  get isTooMuch(): boolean {
    return this.#bytes > serverLimits.incomingBodyBytes;
  }

  add(bytes: number): void {
    this.#bytes += bytes;
  }

  remove(bytes: number): void {
    this.#bytes -= bytes;
  }
}

/**
 * Refuses JSON that no request of ours looks like, before anything is done with it: nested so deep
 * that walking it overflows the stack, so many values that checking them takes seconds, and the one key that
 * changes what an object is when it is copied carelessly.
 */
function checkShape(value: unknown): unknown {
  let values = 0;
  let level: readonly unknown[] = [value];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > serverLimits.bodyDepth) {
      throw badJson(`it is nested deeper than ${serverLimits.bodyDepth} levels`);
    }
    values += level.length;
    if (values > serverLimits.bodyValues) {
      throw badJson(`it holds more than ${serverLimits.bodyValues} values`);
    }
    level = level.flatMap(membersOf);
  }
  return value;
}

function membersOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value;
  if (typeof value !== 'object' || value === null) return [];
  if (Object.hasOwn(value, '__proto__')) throw badJson('it has a key "__proto__"');
  return Object.values(value);
}
