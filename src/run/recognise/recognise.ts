import type { OutOfMemory } from '../types.js';
import { candidate, linePrefix, patterns, unsurePatterns } from './patterns.js';

/** PyTorch's longest message has some 700 characters; more of a line than this adds nothing. */
export const longestLine = 4096;

/** What is kept of a message, for people to read. */
const keptCharacters = 600;

/**
 * Whether a line of output says that memory ran out, and all it tells about it.
 *
 * @example
 * recogniseLine('RuntimeError: CUDA error: out of memory')?.kind; // 'cuda-driver'
 */
export function recogniseLine(line: string): OutOfMemory | undefined {
  return firstOf(patterns, line);
}

/**
 * Whether a line may say so: libraries use the same words for other causes. Believe it only where
 * memory was short.
 *
 * @example
 * suspectLine('RuntimeError: could not create a primitive')?.kind; // 'onednn'
 */
export function suspectLine(line: string): OutOfMemory | undefined {
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
