import { formatBytes, MiB } from '../units/bytes.js';
import { type Advice, unknownSaving } from './advice.js';

/** A program that runs on Node, or is to. */
export interface NodeProgram {
  /** As people know it: its name and pid, or the command. */
  readonly who: string;
  /** What it holds now; 0 before it was started. */
  readonly residentBytes: number;
  /** Where its heap ends: what its command states, or the default of its Node. */
  readonly heapLimitBytes: number;
  readonly isStated: boolean;
}

/** A heap this full is collected over and over, and then ends. */
const nearlyFull = 0.8;
/** Of the host: the rest is for buffers outside of the heap, and for others. */
const hostShare = 0.75;

/**
 * Where the heap of a Node program should end: above what it needs, and below what the host has.
 *
 * @example
 * nodeAdvice([{ who: 'node (7)', residentBytes: 0, heapLimitBytes: 2 ** 32, isStated: false }], 2 ** 31);
 * // [{ code: 'node-heap', steps: ["export NODE_OPTIONS='--max-old-space-size=1536'"], ... }]
 */
export function nodeAdvice(programs: readonly NodeProgram[], hostBytes: number): readonly Advice[] {
  const most = Math.floor((hostShare * hostBytes) / MiB) * MiB;
  return programs.flatMap((program): Advice[] => {
    const { who, residentBytes, heapLimitBytes } = program;
    const ends = `its heap ends at ${formatBytes(heapLimitBytes)}`;
    if (heapLimitBytes > hostBytes) {
      const fact = `${who}: ${ends}, and the host has ${formatBytes(hostBytes)}: it would be killed before it collects.`;
      return [advised(fact, most)];
    }
    if (residentBytes >= nearlyFull * heapLimitBytes && most > heapLimitBytes) {
      const fact = `${who} holds ${formatBytes(residentBytes)}, and ${ends}.`;
      return [advised(fact, Math.min(most, 2 * heapLimitBytes))];
    }
    if (residentBytes === 0 && !program.isStated && most > 2 * heapLimitBytes) {
      const fact = `${who}: ${ends}, and the host has ${formatBytes(hostBytes)}.`;
      return [advised(fact, most)];
    }
    return [];
  });
}

function advised(fact: string, bytes: number): Advice {
  return {
    code: 'node-heap',
    fact,
    steps: [`export NODE_OPTIONS='--max-old-space-size=${Math.floor(bytes / MiB)}'`],
    saves: unknownSaving,
  };
}
