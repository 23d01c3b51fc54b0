import { smallerMicrobatch } from '../batches/sizes/smaller-microbatch.js';
import { Failure } from '../failure.js';
import { isDiskFull } from '../files/system-errors.js';
import { changesOf } from '../plan/environment/job-environment.js';
import { formatBytes, GiB, MiB } from '../units/bytes.js';
import { isKnown, type Known } from '../units/known.js';
import { shellWords } from '../units/words.js';
import { configuredBatches, tellsAccumulation } from './adapt/adapted-config.js';
import { accumulationOf, type KnownFlags, plainName } from './adapt/known-flags.js';
import { flagsOf, type OtherFlags, otherFlags } from './adapt/other-flags.js';
import type { YamlSettings } from './adapt/yaml-settings.js';
import type { EndedAttempt, LiveAttempt } from './attempt.js';
import {
  climb,
  climbed,
  heldAtFailure,
  type NextAttempt,
  splitBatch,
  wasRestarted,
} from './ladder/climb.js';
import { startCanary } from './launch/canary.js';
import { relaySignals } from './launch/signal-relay.js';
import { limitedNow } from './limit/moving-limit.js';
import { type BoundLog, boundLog } from './log/bound-log.js';
import { jobLogLimit } from './log/log-limit.js';
import { type OpenAttemptOptions, openAttempt } from './open-attempt.js';
import { fillCommand, type Placeholder, placeholdersOf } from './placeholders.js';
import type { RunContext } from './run-context.js';
import { effectiveBatch, firstNotes, outcomeOf, whereItStands } from './run-state.js';
import { openJournal, readJournal } from './store/journal.js';
import type { JournalEntry } from './store/journal-entry.js';
import type { RunFolder } from './store/run-folder.js';
import { limitOn, type RunPlan } from './store/run-plan.js';
import type { Attempt, RunReport } from './types.js';
import { nextMessage, outOfMemoryMessage, passedLimit } from './words.js';

/** Between two looks whether a full disk has room again. */
const roomSeconds = 1;
const diskFullMessage =
  'plimsoll: the disk is full: what happens to this run cannot be written down.';

export interface SuperviseOptions {
  readonly plan: RunPlan;
  readonly folder: RunFolder;
  readonly context: RunContext;
  /** The driver's name for a device, where the program shall see that one only. */
  readonly visibleAs: (device: string) => string | undefined;
}

/**
 * Runs a command to its end: attempt after attempt, until one does not run out of memory, or no
 * rung is left, or it is interrupted. A run that was begun before goes on where it was.
 *
 * @example
 * const report = await superviseRun({ plan, folder, context, visibleAs: () => undefined });
 * process.exitCode = Number(report.exitCode);
 */
export async function superviseRun(options: SuperviseOptions): Promise<RunReport> {
  const { plan, folder, context } = options;
  const now = () => new Date(context.clock.epochMs()).toISOString();
  const past = readJournal(folder.journal);
  const journal = openJournal(folder.journal);
  const attempts: Attempt[] = past.flatMap((entry) =>
    entry.type === 'ended' ? entry.attempt : [],
  );
  const notes = firstNotes(past, context);
  let live: LiveAttempt | undefined;
  let tryNext: string | undefined;
  let saidFull = false;
  const canary = startCanary();
  const relay = relaySignals({
    source: context.signals,
    canary,
    forward: (signal) => live?.signal(signal),
    onStop: (signal) => void keep({ type: 'stopped', at: now(), signal }),
    onImpatient: () => live?.killAll(),
    onResize: () => live?.resize(),
  });
  const stoppedBefore = past.some(({ type }) => type === 'stopped');
  const wasStopped = () => stoppedBefore || relay.stoppedBy !== undefined;
  context.libc?.adoptOrphans();
  const log = plan.log === undefined ? undefined : boundJobLog(plan.log, plan, context);

  try {
    let { number, settings, started, isOver } = whereItStands(past, plan);
    while (!isOver) {
      const end = await attemptToItsEnd({ ...options, journal, past, number, settings, started });
      if (end === undefined) break;
      if (end instanceof Failure) return await finish(end);
      const ended = await explained(end);
      started = undefined;
      const { attempt, next } = afterAttempt(ended);
      attempts.push(attempt);
      await keep({ type: 'ended', attempt, next: next ?? null });
      isOver = next === undefined;
      if (next === undefined) break;
      number++;
      settings = next.settings;
      context.notify(nextMessage(next, number));
    }
    return await finish();
  } finally {
    relay.release();
    canary.release();
    journal.close();
    await log?.release();
  }

  /**
   * One attempt to its end. On a full disk it could not be written down, and so it is not begun: a job
   * waits for room, and is over when it is stopped meanwhile; a person is told at once.
   */
  async function attemptToItsEnd(
    attempt: OpenAttemptOptions,
  ): Promise<EndedAttempt | Failure | undefined> {
    for (;;) {
      try {
        live = await openAttempt(attempt);
        return await endOrFailure(live);
      } catch (error) {
        if (!isDiskFull(error) || plan.log === undefined) throw error;
        if (wasStopped()) return undefined;
        await waitForRoom();
      } finally {
        live = undefined;
      }
    }
  }

  async function waitForRoom(): Promise<void> {
    if (!saidFull) context.notify(diskFullMessage);
    saidFull = true;
    await context.clock.waitUntil(context.clock.seconds() + roomSeconds);
  }

  /** Before the end is written down: a reader of the end, a daemon too, then also finds why. */
  async function explained(ended: EndedAttempt): Promise<EndedAttempt> {
    const { snapshot } = ended.attempt;
    if (snapshot === null) return ended;
    return { ...ended, attempt: { ...ended.attempt, snapshot: await context.explain(snapshot) } };
  }

  function afterAttempt(ended: EndedAttempt): { attempt: Attempt; next: NextAttempt | undefined } {
    const { attempt, leftBehind } = ended;
    if (attempt.number === 1 && attempt.limit.by === 'address-space') notes.push(attempt.limit.why);
    const passed = passedLimit(attempt);
    if (passed !== undefined) {
      notes.push(passed);
      context.notify(`plimsoll: ${passed}`);
    }
    if (leftBehind.length > 0) {
      notes.push(
        `Could not be ended, because they belong to another user: ${leftBehind.join(', ')}.`,
      );
    }
    if (attempt.outOfMemory === null || wasStopped()) return { attempt, next: undefined };
    context.notify(outOfMemoryMessage(attempt));
    const next = nextAfter(ended);
    if (next === undefined) return { attempt, next };
    const atSeconds = (Date.parse(attempt.endedAt) - Date.parse(attempt.startedAt)) / 1000;
    return { attempt: { ...attempt, rungs: [...attempt.rungs, climbed(next, atSeconds)] }, next };
  }

  function nextAfter(ended: EndedAttempt): NextAttempt | undefined {
    const { attempt, baseBytes, madeProgress, canSpill } = ended;
    if (attempt.outOfMemory === null) return undefined;
    // A restart from a checkpoint follows progress: it is no repetition, and has a bound of its own.
    const tried = 1 + attempts.filter((one) => !wasRestarted(one)).length;
    if (tried >= plan.maxAttempts) {
      notes.push(`It was tried ${tried} times, which is as often as --attempts allows.`);
      return undefined;
    }
    const next = climb({
      settings: attempt.settings,
      outOfMemory: attempt.outOfMemory,
      peakBytes: attempt.peakBytes,
      limitBytes: limitAfter(attempt) ?? attempt.outOfMemory.totalBytes,
      baseBytes,
      earlier: attempts,
      measured: attempt.measuredSizes ?? [],
      declared: declaredBy(plan, ended),
      batch: effectiveBatch(plan),
      savedProgress: madeProgress,
      canSpill: canSpill && plan.spill !== 'off',
    });
    if (next === undefined) notes.push(lastWord(attempt, baseBytes));
    return next;
  }

  /** Of the next attempt, where a limit was asked for meanwhile. */
  function limitAfter({ settings }: Attempt): number | undefined {
    return limitOn(limitedNow(plan, folder), settings.device);
  }

  function lastWord(attempt: Attempt, baseBytes: Known<number>): string {
    const batch = effectiveBatch(plan);
    const { command } = plan;
    const totalBytes = attempt.outOfMemory?.totalBytes ?? 'unknown';
    const limitBytes = limitAfter(attempt) ?? totalBytes;
    const files = configuredBatches(command, plan.folder);
    const other = otherFlags(command, plan.folder);
    const kept = keptOptions(plan);
    const memory = memoryOption(plan);
    const advice = isKnown(batch)
      ? undefined
      : whatToType({
          command,
          attempt,
          limitBytes,
          baseBytes,
          files,
          other,
          options: kept,
          memory,
        });
    tryNext = advice?.tryNext;
    return advice?.words ?? nothingLeft(command, batch, kept);
  }

  /**
   * A disk that is full must not stop a program. Its exit code is what counts for a person; of a job
   * somebody else keeps account, so it is tried until there is room.
   */
  async function keep(entry: JournalEntry): Promise<void> {
    for (;;) {
      try {
        journal.write(entry);
        return;
      } catch (error) {
        if (!isDiskFull(error)) throw error;
        if (plan.log !== undefined && entry.type !== 'stopped') {
          await waitForRoom();
          continue;
        }
        if (!saidFull) context.notify(diskFullMessage);
        saidFull = true;
        return;
      }
    }
  }

  /** Of a program that could not be started, no attempt tells why. */
  async function finish(notStarted?: Failure): Promise<RunReport> {
    if (notStarted !== undefined) {
      notes.push(notStarted.fact);
      context.notify(`plimsoll: ${notStarted.code}: ${notStarted.message}`);
    }
    const exitCode = attempts.at(-1)?.exitCode ?? 'unknown';
    const outcome = outcomeOf(exitCode, wasStopped());
    await keep({ type: 'finished', at: now(), outcome, exitCode, why: notStarted?.message });
    folder.removeSocket();
    return {
      schema: 1,
      tool: { name: 'plimsoll', version: context.version },
      id: plan.id,
      command: plan.command,
      outcome,
      exitCode,
      startedAt: plan.createdAt,
      endedAt: now(),
      attempts,
      ...changesOf(plan),
      notes,
      ...(tryNext !== undefined && { tryNext }),
    };
  }
}

/**
 * What the program can be told when it is started anew. One that writes checkpoints by the SDK need
 * not be told that it is.
 */
function declaredBy(
  { command, config }: RunPlan,
  { savesItself }: EndedAttempt,
): ReadonlySet<Placeholder> {
  const declared = new Set(placeholdersOf(command));
  if (config !== undefined && tellsAccumulation(config)) declared.add('accumulation');
  if (savesItself) declared.add('attempt');
  return declared;
}

async function endOrFailure(live: LiveAttempt): Promise<EndedAttempt | Failure> {
  try {
    return await live.ended;
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
}

function boundJobLog(path: string, plan: RunPlan, { clock, libc, notify }: RunContext): BoundLog {
  return boundLog({ path, limit: plan.logLimit ?? jobLogLimit, clock, libc, notify });
}

/**
 * What a person said of memory and device, for the next `plimsoll run` that is named to them.
 *
 * @example
 * keptOptions(plan); // ['--memory', '8GiB', '--device', 'gpu:0']
 */
export function keptOptions({
  pinnedDevice,
  ...plan
}: StatedLimit & Pick<RunPlan, 'pinnedDevice'>): readonly string[] {
  return [...memoryOption(plan), ...(pinnedDevice ? ['--device', plan.settings.device] : [])];
}

type StatedLimit = Pick<RunPlan, 'memoryBytes' | 'contextBytes' | 'settings'>;

function memoryOption({ memoryBytes, contextBytes, settings }: StatedLimit): readonly string[] {
  if (memoryBytes === null) return [];
  const isAll = settings.device === 'host' || contextBytes !== undefined;
  return [isAll ? '--memory' : '--allocator-memory', typedSize(memoryBytes)];
}

/** To the byte, as a person would type it. */
function typedSize(bytes: number): string {
  if (bytes % GiB === 0) return `${bytes / GiB}GiB`;
  return bytes % MiB === 0 ? `${bytes / MiB}MiB` : String(bytes);
}

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
  /** Those of them that limit the memory. */
  readonly memory?: readonly string[];
}

interface Advice {
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
  { limitBytes, memory = [] }: Pick<Ending, 'limitBytes' | 'memory'>,
): string {
  if (settings.device === 'host' || !isKnown(limitBytes)) return '';
  // Without a limit of its own it is the whole device.
  const stated = memory.length === 0 ? ['--memory', typedSize(limitBytes)] : memory;
  const sizes = [...stated, '--batch', String(batch * accumulation)];
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

/** What the ladder can change from outside, beside the batch. */
const changeable: readonly Placeholder[] = ['checkpointing', 'precision', 'offload', 'device'];
const oneSampleWords = 'Nothing left to try: one sample at a time does not fit';

/**
 * Why there is no next attempt, and what to type so that there is one.
 *
 * @example
 * nothingLeft(['python', 'train.py'], 'unknown');
 * // 'Nothing left to try: the command has no {batch_size}. Add it: plimsoll run --batch-size 32 -- ...'
 */
export function nothingLeft(
  command: readonly string[],
  batch: Known<number>,
  /** Of `plimsoll run`, as they were given: the next one has them, too. */
  given: readonly string[] = [],
): string {
  const declared = placeholdersOf(command);
  if (!isKnown(batch)) {
    const options = '--batch-size {batch_size} --accumulate {accumulation}';
    const run = shellWords(['run', '--batch-size', '32', ...given, '--', ...command]);
    const typed = `plimsoll ${run} ${options}`;
    return `Nothing left to try: the command has no {batch_size}. Add it, by the options that the program has for it: ${typed}`;
  }
  const missing = changeable.filter((name) => !declared.has(name));
  const [first] = missing;
  if (first === undefined) {
    return 'Nothing left to try: every setting that the command takes was lowered. Give it more memory, or see what would fit: plimsoll plan --help';
  }
  const names = missing.map((name) => `{${name}}`).join(', ');
  const turnOn =
    'Turn on gradient checkpointing or bf16 in the program, or use a shorter sequence.';
  // A batch that stands in a file is changed by --adapt, which takes no placeholder beside it.
  if (!declared.has('batch_size')) return `${oneSampleWords}. ${turnOn}`;
  const run = shellWords(['run', '--batch-size', String(batch), ...given, '--', ...command]);
  return `${oneSampleWords}, and the command has no ${names}. ${turnOn} Or add those that the program has an option for, such as: plimsoll ${run} --${first} {${first}}`;
}
