import type { JobView } from '../../jobs/daemon/types.js';
import { hasEnded, type JobState } from '../../jobs/types.js';
import { jobName, jobStandsWords } from '../../report/text/job-text.js';
import { cleanText } from '../../report/text/text-width.js';
import { systemClock } from '../../time/clock.js';
import { isKnown } from '../../units/known.js';
import { type CliIo, type Output, textStyle } from '../io.js';
import { openLiveProgress } from '../screen/progress.js';
import type { Stop } from '../stop.js';
import { followLog } from './follow-log.js';
import type { ServerClient } from './server-client.js';

interface WatchJobOptions {
  readonly client: ServerClient;
  readonly stop: Stop;
  readonly io: CliIo;
  /** Show what it prints. */
  readonly follow: boolean;
  /** stdout is for the one document; what the job prints goes to stderr. */
  readonly json: boolean;
  /** Bytes of its log that were shown already. */
  readonly from?: number | undefined;
}

/**
 * Waits for the end of a job, tells its changes, and answers it as it ended; undefined when the
 * person left, who is told then that the job goes on.
 */
export async function watchJob(
  job: Pick<JobView, 'id' | 'name' | 'state' | 'waiting'>,
  { client, stop, io, follow, json, from = 0 }: WatchJobOptions,
): Promise<JobView | undefined> {
  const notify = (line: string) => io.stderr.write(`plimsoll: ${line}\n`);
  const output = json ? io.stderr : io.stdout;
  const estimate = openLiveProgress(io.stderr, textStyle(io).unicode);
  let { state } = job;
  let isEstimating = progressOf(job) !== undefined;
  const ended = await followLog({
    client,
    id: job.id,
    from,
    write: follow ? writing(output, stop.signal) : undefined,
    onJob(now) {
      const progress = progressOf(now);
      if (progress === undefined) estimate.end();
      else if (io.stderr.isTerminal) estimate.show(cleanText(progress.why), progress.share);
      const isNew = now.state !== state || (progress === undefined && isEstimating);
      if (isNew && !hasEnded(now.state)) notify(jobStandsWords(now, systemClock.epochMs()));
      ({ state } = now);
      isEstimating = progress !== undefined;
    },
    notify,
    signal: stop.signal,
  }).finally(() => estimate.end());
  if (ended === undefined && stop.interruptedBy !== undefined) {
    notify(
      `${jobName(job)} goes on. "plimsoll logs -f ${job.id}" follows it, "plimsoll cancel ${job.id}" ends it.`,
    );
  }
  return ended;
}

/** How far the estimate is of a job that waits for one. */
function progressOf({ waiting }: Pick<JobView, 'waiting'>) {
  if (waiting?.whyDetails.code !== 'estimating') return undefined;
  const { share } = waiting.whyDetails;
  return { why: waiting.why, share: isKnown(share) ? share : undefined };
}

/**
 * Never more than a reader takes: a log may be larger than our memory. A terminal gets no sequences
 * that could harm its owner, who may not be the owner of the job; a file gets all as it is.
 */
export function writing(output: Output, signal: AbortSignal): (text: string) => Promise<void> {
  const filter = output.isTerminal ? new TerminalFilter() : undefined;
  return (text) => {
    output.write(filter === undefined ? text : filter.take(text));
    return output.drained(signal);
  };
}

/** What a command that waited for a job ends with. */
const exitCodes: Readonly<Record<JobState, number>> = {
  waiting: 0,
  running: 0,
  succeeded: 0,
  /** It never ran: the answer to what was asked is no. */
  refused: 1,
  expired: 1,
  failed: 4,
  cancelled: 4,
};

export function jobExitCode(state: JobState): number {
  return exitCodes[state];
}

/** Colours, and what progress bars move: within a line, up a line, to its start, clearing it. */
const harmless = /^\[[\d;]{0,32}[mKABCDG]$/;
const escape = '\u001b';
/** Longer than any sequence that is let through; what is longer is not one. */
const longestSequence = 40;

/**
 * What a program printed, made fit for a terminal of somebody else. Colours and progress bars stay.
 * Sequences that set the clipboard, the title or the keyboard, ask the terminal for an answer, or
 * switch its screen are left out. It goes on over the pieces in which the text comes.
 *
 * @example
 * const filter = new TerminalFilter();
 * filter.take('\u001b[32mgreen\u001b[0m \u001b]52;c;ZXZpbA==\u0007'); // '\u001b[32mgreen\u001b[0m '
 */
export class TerminalFilter {
  /** A sequence that has begun; empty between two. */
  #sequence = '';
  /** Inside of a string for the terminal (OSC, DCS, APC, PM, SOS): all of it is left out. */
  #inString = false;

  take(text: string): string {
    let shown = '';
    for (const letter of text) {
      if (this.#inString) this.#skip(letter);
      else if (this.#sequence !== '') shown += this.#goOn(letter);
      else if (letter === escape) this.#sequence = letter;
      else if (!isControl(letter)) shown += letter;
    }
    return shown;
  }

  #skip(letter: string): void {
    const isEnd = letter === '\u0007' || (this.#sequence === escape && letter === '\\');
    this.#sequence = letter === escape ? letter : '';
    if (!isEnd) return;
    this.#inString = false;
    this.#sequence = '';
  }

  /** What becomes of the letter after an escape: the whole sequence where it is harmless. */
  #goOn(letter: string): string {
    if (this.#sequence === escape && ']PX^_'.includes(letter)) {
      this.#inString = true;
      this.#sequence = '';
      return '';
    }
    const sequence = this.#sequence + letter;
    const rest = sequence.slice(escape.length);
    const isOpen = /^\[[ -?]*$/.test(rest) && sequence.length < longestSequence;
    this.#sequence = isOpen ? sequence : '';
    if (harmless.test(rest)) return sequence;
    // A line must not be swallowed by a sequence that was never finished.
    return !isOpen && letter === '\n' ? letter : '';
  }
}

/** All but tab, line feed, carriage return and backspace; those of eight bits begin sequences, too. */
function isControl(letter: string): boolean {
  const code = letter.codePointAt(0) ?? 0;
  if (code >= 0x80) return code < 0xa0;
  return code < 0x20 ? !'\t\n\r\b'.includes(letter) : code === 0x7f;
}
