import { checkArguments, string } from '../../units/arguments.js';
import type { OutOfMemory } from '../types.js';
import { candidate, linePrefix, patterns, unsurePatterns } from './patterns.js';

/**
 * A program that ran out of memory says so near its end: launchers add some pages of their own.
 * What stands farther up was survived.
 */
const tailBytes = 64 * 1024;

/** Messages this close to one another are about the same. */
const sameBytes = 8 * 1024;

/** A finding in the output, and the amount of output after it. */
export interface Finding {
  readonly outOfMemory: OutOfMemory;
  readonly bytesAfter: number;
}

/**
 * Reads the output of a program as it passes, in pieces of any size, and keeps only what matters:
 * its memory does not grow with the output.
 *
 * @example
 * const scanner = createScanner();
 * scanner.take(Buffer.from('CUDA error: out of mem'));
 * scanner.take(Buffer.from('ory\n'));
 * scanner.found()?.outOfMemory.kind; // 'cuda-driver'
 */
export interface Scanner {
  take(chunk: Uint8Array): void;
  /** The last message near the end of the output; call it when the output has ended, or at any time. */
  found(): Finding | undefined;
  /** The last line near the end that may say so, where memory was short. */
  suspected(): Finding | undefined;
}

/** Looks for an out-of-memory in what a program prints, chunk by chunk. */
export function createScanner(): Scanner {
  let seen = 0;
  let rest = '';
  let last: { readonly outOfMemory: OutOfMemory; readonly at: number } | undefined;
  let suspect: typeof last;

  const look = (line: string, end: number) => {
    const outOfMemory = recogniseLine(line);
    if (outOfMemory === undefined) {
      const suspected = suspectLine(line);
      if (suspected !== undefined) suspect = { outOfMemory: suspected, at: end };
      return;
    }
    // A program often says it twice, and only once with the figures.
    const before = last !== undefined && end - last.at <= sameBytes ? last.outOfMemory : undefined;
    const knewMore = before?.askedBytes !== 'unknown' && outOfMemory.askedBytes === 'unknown';
    last = { outOfMemory: before !== undefined && knewMore ? before : outOfMemory, at: end };
  };
  const near = (one: typeof last): Finding | undefined =>
    one === undefined || seen - one.at > tailBytes
      ? undefined
      : { outOfMemory: one.outOfMemory, bytesAfter: seen - one.at };
  return {
    take(chunk) {
      seen += chunk.length;
      // One byte a character, so that a piece may end within one; what we look for is ASCII.
      const text =
        rest + Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length).toString('latin1');
      const end = Math.max(text.lastIndexOf('\n'), text.lastIndexOf('\r')) + 1;
      const whole = text.slice(0, end);
      if (candidate.test(whole)) {
        for (const line of whole.split(/[\r\n]+/)) look(line, seen);
      }
      // The start of a line tells what it is; an endless one must not pile up.
      rest = text.slice(end, end + longestLine);
    },
    found() {
      if (rest !== '') look(rest, seen);
      return near(last);
    },
    suspected() {
      if (rest !== '') look(rest, seen);
      return near(suspect);
    },
  };
}

/** PyTorch's longest message has some 700 characters; more of a line than this adds nothing. */
const longestLine = 4096;

/** Characters kept of a message, for people to read. */
const keptCharacters = 600;

/**
 * Whether a line of output says that memory ran out, and all it tells about it.
 *
 * @example
 * recogniseLine('RuntimeError: CUDA error: out of memory')?.kind; // 'cuda-driver'
 */
export function recogniseLine(line: string): OutOfMemory | undefined {
  checkArguments('recogniseLine', { line }, { line: string });
  return firstOf(patterns, line);
}

/**
 * Whether a line may say so: libraries use the same words for other causes. Believe it only where
 * memory was short.
 *
 * @example
 * suspectLine('RuntimeError: could not create a primitive')?.kind; // 'onednn'
 */
function suspectLine(line: string): OutOfMemory | undefined {
  return firstOf(unsurePatterns, line);
}

function firstOf(known: typeof patterns, line: string): OutOfMemory | undefined {
  const cut = line.slice(0, longestLine);
  if (!candidate.test(cut)) return undefined;
  const text = withoutColours(cut).replace(linePrefix, '');
  for (const { kind, says, unless, figures } of known) {
    if (!says.test(text) || unless?.test(text)) continue;
    return {
      kind,
      askedBytes: 'unknown',
      freeBytes: 'unknown',
      totalBytes: 'unknown',
      ...figures?.(text),
      message: text.trim().slice(0, keptCharacters),
    };
  }
  return undefined;
}

/** Colours and other commands to a terminal, as loggers write them. */
function withoutColours(text: string): string {
  // oxlint-disable-next-line no-control-regex -- they begin with one
  return text.replaceAll(/\u001B\[[\d;?]{0,20}[A-Za-z]/g, '');
}
