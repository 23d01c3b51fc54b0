import { smallerMicrobatch } from '../../batches/sizes/smaller-microbatch.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown, type Known } from '../../units/known.js';
import { shellWords } from '../../units/shell-words.js';
import { heldAtFailure } from '../ladder/fragmented.js';
import { splitBatch } from '../ladder/split-batch.js';
import { fillCommand } from '../placeholders.js';
import type { Attempt } from '../types.js';
import { typedSize } from './kept-options.js';
import type { KnownFlags } from './known-flags.js';
import { flagsOf, type OtherFlags } from './other-flags.js';
import { accumulationOf, plainName } from './setting-names.js';
import type { YamlSettings } from './yaml-settings.js';

/** The end of a run that ran out of memory, and what its command tells of its batch. */
export interface Ending {
  readonly command: readonly string[];
  readonly attempt: Attempt;
  readonly limitBytes: Known<number>;
  readonly baseBytes: Known<number>;
  /** Of the YAML files that the command names, those that set a batch. */
  readonly files: readonly (YamlSettings & { readonly file: string })[];
  /** Settings that it has from elsewhere. */
  readonly other?: OtherFlags;
  /** Of `plimsoll run`, as they were given: the next one has them, too. */
  readonly options: readonly string[];
}

export interface Advice {
  readonly words: string;
  /** The one command that does it by itself; left out where the batch is one sample. */
  readonly tryNext?: string;
}

/**
 * What held the memory, what would fit by estimate, and the command to type; undefined where the
 * command tells nothing of its batch.
 *
 * @example
 * whatToType(ending)?.words;
 * // '4 x 2 may fit (estimated): 8 needed at least 9.0 GiB of 8.0 GiB. Type: python train.py --batch-size 4 ...'
 */
export function whatToType(ending: Ending): Advice | undefined {
  const held = ending.attempt.snapshot?.findings[0];
  const advice = byFlags(ending) ?? byFiles(ending);
  if (advice === undefined) return undefined;
  return held === undefined
    ? advice
    : { ...advice, words: `${advice.words} What held the memory: ${held}` };
}

function byFlags({ command, attempt, other, ...known }: Ending): Advice | undefined {
  const flags = flagsOf(command, known.files.length > 0, other ?? {});
  if (flags === undefined) return undefined;
  const fits = fitting(flags.batch, flags.accumulation, attempt, known);
  if (fits === undefined) return oneSample(`${flags.batchFlag} ${flags.batch}`, attempt);
  const settings = {
    ...attempt.settings,
    batch_size: fits.microbatch,
    accumulation: fits.accumulation,
  };
  const typed = shellWords(fillCommand(flags.command, settings, 1));
  const alone = flags.command.some((word) => word.includes('{accumulation}'))
    ? ''
    : ` (the effective batch is then ${fits.microbatch}, unless the program accumulates ${fits.accumulation} of them)`;
  const tryNext = adapted(command, known.options);
  const done = `Or let it be done: ${tryNext}`;
  return {
    words: `${fits.words} Type: ${typed}${alone}. ${done}${traced(flags, attempt, known)}`,
    tryNext,
  };
}

/** One failure tells the least that a size needs; a trace tells what it needs. It is of programs on a GPU. */
function traced(
  { command, batch, accumulation }: KnownFlags,
  { settings }: Attempt,
  { limitBytes }: Pick<Ending, 'limitBytes'>,
): string {
  if (settings.device === 'host' || !isKnown(limitBytes)) return '';
  const sizes = ['--memory', typedSize(limitBytes), '--batch', String(batch * accumulation)];
  return `. What fits, by a trace of the program: plimsoll ${shellWords(['plan', ...sizes, '--', ...command])}`;
}

/** All is kept that was typed, and --adapt is added. */
function adapted(command: readonly string[], options: readonly string[]): string {
  return `plimsoll ${shellWords(['run', '--adapt', ...options, '--', ...command])}`;
}

function byFiles({ command, files, attempt, ...known }: Ending): Advice | undefined {
  const [one] = files;
  if (one === undefined) return undefined;
  const { file, batch, accumulation } = one;
  const fits = fitting(batch.value, accumulation?.value ?? 1, attempt, known);
  if (fits === undefined) return oneSample(`${batch.key}: ${batch.value}`, attempt);
  const second =
    accumulation === undefined
      ? addedWords(batch.key, fits.accumulation)
      : `line ${accumulation.line} to ${accumulation.key}: ${fits.accumulation}`;
  const tryNext = adapted(command, known.options);
  const change = `In ${file}, set line ${batch.line} to ${batch.key}: ${fits.microbatch}, and ${second}.`;
  return { words: `${fits.words} ${change} Or let it be done, in a copy: ${tryNext}`, tryNext };
}

/** What a file that sets no accumulation needs beside a smaller batch. */
function addedWords(batchKey: string, accumulation: number): string {
  const name = accumulationOf[plainName(batchKey)];
  return name === undefined
    ? `accumulate ${accumulation} of them, by the setting that the program has for it`
    : `add ${name}: ${accumulation}`;
}

interface Fits {
  readonly microbatch: number;
  readonly accumulation: number;
  readonly words: string;
}

function fitting(
  batch: number,
  accumulation: number,
  attempt: Attempt,
  { limitBytes, baseBytes }: Pick<Ending, 'limitBytes' | 'baseBytes'>,
): Fits | undefined {
  const smaller = smallerMicrobatch({
    microbatch: batch,
    peakBytes: attempt.peakBytes,
    heldBytes: attempt.outOfMemory === null ? 'unknown' : heldAtFailure(attempt.outOfMemory),
    askedBytes: attempt.outOfMemory?.askedBytes ?? 'unknown',
    limitBytes,
    baseBytes,
    earlier: [],
  });
  if (smaller === undefined) return undefined;
  const split = splitBatch(batch * accumulation, Math.min(smaller.most, batch));
  return {
    microbatch: split.microbatch,
    accumulation: split.accumulation,
    words: `${split.microbatch} x ${split.accumulation} may fit (estimated): ${smaller.why}.`,
  };
}

function oneSample(setting: string, { peakBytes }: Attempt): Advice {
  const peak = isKnown(peakBytes) ? ` It reached ${formatBytes(peakBytes)}.` : '';
  return {
    words: `The batch is as small as it can be (${setting}).${peak} Turn on gradient checkpointing or bf16 in the program, use a shorter sequence, or see what would fit: plimsoll plan --help`,
  };
}
