import { formatBytes } from '../../../units/bytes.js';
import { isKnown, type Known } from '../../../units/known.js';
import { cleanText } from '../text-width.js';

/** What became of a list of jobs. */
export interface PackSummary {
  readonly succeeded: number;
  readonly failed: readonly {
    readonly line: number;
    readonly text: string;
    readonly reason: string;
  }[];
  readonly left: readonly { readonly line: number; readonly text: string }[];
  readonly seconds: number;
  readonly peakBytes: Known<number>;
}

/** At most so many lines of each kind are listed. */
const shownLines = 20;

export function packText(
  summary: PackSummary,
  { leftFile, logs }: { readonly leftFile: string; readonly logs: string },
): string {
  const { succeeded, failed, left, seconds, peakBytes } = summary;
  const total = succeeded + failed.length + left.length;
  const peak = isKnown(peakBytes) ? ` Largest peak: ${formatBytes(peakBytes)} (measured).` : '';
  return [
    `${succeeded} of ${total} jobs succeeded in ${Math.round(seconds)} s.${peak}`,
    ...(failed.length === 0 ? [] : [`Failed: ${failed.length}. What they printed is in ${logs}.`]),
    ...listed(failed.map(({ line, text, reason }) => `  line ${line}: ${text} (${reason})`)),
    ...(left.length === 0
      ? []
      : [`Not started for lack of time, or stopped: ${left.length}. They are in ${leftFile}.`]),
  ]
    .map(cleanText)
    .join('\n');
}

function listed(lines: readonly string[]): readonly string[] {
  if (lines.length <= shownLines) return lines;
  return [...lines.slice(0, shownLines), `  and ${lines.length - shownLines} more`];
}
