import { Failure } from '../failure.js';
import { isDiskFull } from '../files/disk-full.js';
import { changesOf } from '../plan/environment/job-environment.js';
import { isKnown, type Known } from '../units/known.js';
import { tellsAccumulation } from './adapt/adapted-config.js';
import { configuredBatches } from './adapt/configured-batches.js';
import { keptOptions } from './adapt/kept-options.js';
import { otherFlags } from './adapt/other-flags.js';
import { whatToType } from './adapt/what-to-type.js';
import type { EndedAttempt, LiveAttempt } from './attempt.js';
import { climb, climbed, type NextAttempt, wasRestarted } from './ladder/climb.js';
import { nothingLeft } from './ladder/nothing-left.js';
import { startCanary } from './launch/canary.js';
import { relaySignals } from './launch/signal-relay.js';
import { type BoundLog, boundLog } from './log/bound-log.js';
import { jobLogLimit } from './log/log-limit.js';
import { type OpenAttemptOptions, openAttempt } from './open-attempt.js';
import { type Placeholder, placeholdersOf } from './placeholders.js';
import type { RunContext } from './run-context.js';
import { effectiveBatch, firstNotes, outcomeOf, whereItStands } from './run-state.js';
import { openJournal, readJournal } from './store/journal.js';
import type { JournalEntry } from './store/journal-entry.js';
import type { RunFolder } from './store/run-folder.js';
import type { RunPlan } from './store/run-plan.js';
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
    const { attempt, baseBytes, madeProgress } = ended;
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
      limitBytes: plan.memoryBytes ?? attempt.outOfMemory.totalBytes,
      baseBytes,
      earlier: attempts,
      measured: attempt.measuredSizes ?? [],
      declared: declaredBy(plan, ended),
      batch: effectiveBatch(plan),
      savedProgress: madeProgress,
    });
    if (next === undefined) notes.push(lastWord(attempt, baseBytes));
    return next;
  }

  function lastWord(attempt: Attempt, baseBytes: Known<number>): string {
    const batch = effectiveBatch(plan);
    const { command } = plan;
    const limitBytes = plan.memoryBytes ?? attempt.outOfMemory?.totalBytes ?? 'unknown';
    const files = configuredBatches(command, plan.folder);
    const other = otherFlags(command, plan.folder);
    const kept = keptOptions(plan);
    const advice = isKnown(batch)
      ? undefined
      : whatToType({ command, attempt, limitBytes, baseBytes, files, other, options: kept });
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
