import type { Attempt } from '../run/types.js';
import { deviceWords } from '../run/words.js';
import { formatBytes } from '../units/bytes.js';
import { formatSeconds } from '../units/durations.js';
import { isKnown } from '../units/known.js';

/** What held the memory of an attempt, for the terminal and for its page. */
export interface HolderWords {
  readonly title: string;
  readonly processes: readonly { readonly bytes: string; readonly command: string }[];
  /** What a reader should know of these figures. */
  readonly note: string;
}

/** Below this share of the limit the named processes do not explain that it was reached. */
const explainsShare = 0.7;

/** By the processes, as they were last read; undefined where none was. */
export function holderWords(attempt: Attempt): HolderWords | undefined {
  const { holders, settings, startedAt, endedAt } = attempt;
  if (holders === undefined) return undefined;
  const seconds = (Date.parse(endedAt) - Date.parse(startedAt)) / 1000;
  const before = formatSeconds(Math.max(0, seconds - holders.atSeconds));
  const of = settings.device === 'host' ? '' : ` of ${deviceWords(settings)}`;
  return {
    title: `What held the memory${of}, read ${before} before the end:`,
    processes: holders.processes.map(({ pid, command, bytes }) => ({
      bytes: formatBytes(bytes),
      command: `${isKnown(command) ? command : 'unknown program'} (pid ${pid})`,
    })),
    note: noteOf(attempt, holders),
  };
}

function noteOf({ limit, settings }: Attempt, holders: NonNullable<Attempt['holders']>): string {
  const { totalBytes, othersBytes } = holders;
  const parts = [`All processes of the run together: ${formatBytes(totalBytes)}.`];
  if (isKnown(othersBytes)) {
    parts.push(`Other programs on ${deviceWords(settings)}: ${formatBytes(othersBytes)}.`);
  }
  if (typeof limit.bytes === 'number' && totalBytes < explainsShare * limit.bytes) {
    parts.push(`The rest, up to ${formatBytes(limit.bytes)}, came after this reading.`);
  }
  return parts.join(' ');
}
