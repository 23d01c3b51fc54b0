import { existsSync, statSync } from 'node:fs';
import { listKernelFolder } from '../../device/kernel-files.js';
import { Failure } from '../../failure.js';
import { hasRoom } from '../../files/disk-full.js';
import { runIdVariable } from '../../run/attempt-environment.js';
import type { LimitCgroup } from '../../run/limit/cgroup.js';
import { findLimitCgroup, limitOfProcesses, removeCgroup } from '../../run/limit/cgroup.js';
import type { LogLimit } from '../../run/log/log-limit.js';
import { endTree, killQuietly } from '../../run/processes/end-tree.js';
import { membersOf } from '../../run/processes/members.js';
import { openJournal } from '../../run/store/journal.js';
import type { JournalEntry } from '../../run/store/journal-entry.js';
import { RunFolder } from '../../run/store/run-folder.js';
import { supervisorOf } from '../../run/store/supervisor-lock.js';
import type { Clock } from '../../time/clock.js';
import type { RunNews, RunOrder } from '../types.js';
import { JournalTail } from './journal-tail.js';
import { maxTries, nextStep } from './next-step.js';
import { type SupervisorProcess, startSupervisor } from './supervisor-process.js';

export interface LocalRunParts {
  readonly home: string;
  readonly command: readonly string[];
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  readonly logLimit?: LogLimit;
  readonly clock: Clock;
  readonly procRoot: string;
}

/** Whether it still has a supervisor costs more than whether its journal grew. */
const supervisorSeconds = 1;
const folderGone = 'The folder of its run was removed; how it ended is unknown.';
const noRoom = 'It was stopped while the disk was full; how it ended could not be written down.';
const journalOdd = 'The journal of its run is not a plain file; how it ended is unknown.';
/** For processes of a run that has no supervisor any more. */
const patience = { bySelfSeconds: 0, afterTermSeconds: 5 };

/** One run: its journal is read, its supervisor is replaced when it dies. */
export class LocalRun {
  readonly #order: RunOrder;
  readonly #parts: LocalRunParts;
  readonly #onNews: (news: RunNews) => void;
  readonly #folder: RunFolder;
  readonly #journal: JournalTail;
  #child: SupervisorProcess | undefined;
  #tries = 0;
  #triedAt = Number.NEGATIVE_INFINITY;
  #lookAt = Number.NEGATIVE_INFINITY;
  #stop: { asked: number; askedAt: number } | undefined;
  #cgroup: LimitCgroup | undefined;
  #wasStarted = false;
  #wasStopped = false;
  #isOver = false;
  #trouble = '';

  constructor(order: RunOrder, parts: LocalRunParts, onNews: (news: RunNews) => void) {
    this.#order = order;
    this.#parts = parts;
    this.#onNews = onNews;
    this.#folder = new RunFolder(parts.home, order.id);
    this.#journal = new JournalTail(this.#folder.journal);
  }

  /** The limit of the attempt that goes on, where the kernel holds one. */
  get cgroup(): LimitCgroup | undefined {
    return this.#cgroup;
  }

  stop(): void {
    this.#stop ??= { asked: 0, askedAt: Number.NEGATIVE_INFINITY };
    this.#lookAt = Number.NEGATIVE_INFINITY;
    // A supervisor on its way reads it before it begins.
    if (!this.#wasStarted && this.#child !== undefined) this.#trying(() => this.#writeStop());
  }

  /** Looks once, and does what there is to do; true when the run is over. */
  look(): boolean {
    this.#trying(() => this.#look());
    return this.#isOver;
  }

  /** A disk that is full, a folder that was taken away: it may come back, and is tried for ever. */
  #trying(work: () => void): void {
    try {
      work();
    } catch (error) {
      this.#trouble = error instanceof Error ? error.message : String(error);
      this.#tries = Math.min(this.#tries, maxTries - 1);
    }
  }

  #look(): void {
    const { clock, procRoot } = this.#parts;
    const nowSeconds = clock.seconds();
    const isDue = nowSeconds >= this.#lookAt;
    // Before the journal: a supervisor that ended has written all that it had to say.
    const supervisor = isDue ? supervisorOf(this.#folder.path, procRoot) : undefined;
    const isOdd = this.#isJournalOdd();
    const unreadable = isOdd ? undefined : this.#readJournal();
    if (this.#isOver || !isDue) return;
    // It cannot be supervised; to give up and end its program would make that worse.
    const gone = this.#isFolderGone() ? folderGone : undefined;
    const why = isOdd ? journalOdd : (unreadable?.fact ?? gone);
    if (supervisor === undefined && why !== undefined) {
      this.#lookAt = nowSeconds + supervisorSeconds;
      this.#leaveAlone(why);
      return;
    }
    this.#lookAt = nowSeconds + (this.#stop === undefined ? supervisorSeconds : 0);
    const next = nextStep({
      nowSeconds,
      supervisor,
      isStarting: this.#child?.isAlive === true,
      tries: this.#tries,
      triedAt: this.#triedAt,
      stop: this.#stop,
    });
    if (next.step === 'attach') this.#attach(nowSeconds);
    if (next.step === 'give-up') void this.#giveUp();
    if (next.step === 'ask' && this.#stop !== undefined) {
      killQuietly(next.pid, 'SIGTERM');
      this.#stop = { asked: this.#stop.asked + 1, askedAt: nowSeconds };
    }
  }

  /** Answers why it cannot be read: a newer version wrote it. */
  #readJournal(): Failure | undefined {
    try {
      for (const entry of this.#journal.read()) this.#take(entry);
      return undefined;
    } catch (error) {
      if (error instanceof Failure) return error;
      throw error;
    }
  }

  #take(entry: JournalEntry): void {
    if (entry.type === 'attached') return;
    this.#tries = 0;
    if (entry.type === 'started') {
      this.#wasStarted = true;
      this.#cgroup = entry.cgroup ?? undefined;
    }
    if (entry.type === 'ended') this.#cgroup = undefined;
    if (entry.type === 'stopped') this.#wasStopped = true;
    // Written again by a supervisor that took it up between its end and its report.
    if (entry.type === 'finished' && this.#isOver) return;
    if (entry.type === 'finished') this.#isOver = true;
    this.#onNews(entry);
  }

  #attach(nowSeconds: number): void {
    const { command, folder, environment, logLimit } = this.#parts;
    this.#triedAt = nowSeconds;
    if (!hasRoom(this.#parts.home)) {
      // A supervisor would end at once, and says nothing against the run: it waits for room.
      if (this.#stop !== undefined) void this.#endAll(noRoom);
      return;
    }
    this.#tries++;
    if (this.#folder.readPlan() === undefined) {
      this.#folder.create({ ...this.#order, logLimit });
    }
    if (this.#stop !== undefined) this.#writeStop();
    const { id: runId, log } = this.#order;
    this.#child = startSupervisor({ command, folder, environment, runId, log }, () => {
      this.#lookAt = Number.NEGATIVE_INFINITY;
    });
  }

  /** A folder or a pipe has its name. */
  #isJournalOdd(): boolean {
    return statSync(this.#folder.journal, { throwIfNoEntry: false })?.isFile() === false;
  }

  /**
   * Its supervisor opens the log after the plan was written: with a log, and neither a plan nor a
   * journal, the folder was removed, or all that it held.
   */
  #isFolderGone(): boolean {
    const wasMade = this.#wasStarted || existsSync(this.#order.log);
    if (!wasMade || existsSync(this.#folder.journal)) return false;
    return this.#folder.readPlan() === undefined;
  }

  /** It can neither be taken up nor begun again, and its program may be running: that goes on. */
  #leaveAlone(why: string): void {
    if (this.#stop !== undefined) void this.#endAll(why);
    else if (this.#members().length === 0) {
      this.#isOver = true;
      this.#removeLeftovers();
      this.#onNews({ type: 'lost', why });
    }
  }

  /** Asked to end while it had no supervisor: the next supervisor finds it written. */
  #writeStop(): void {
    if (this.#wasStopped) return;
    const at = new Date(this.#parts.clock.epochMs()).toISOString();
    const journal = openJournal(this.#folder.journal);
    journal.write({ type: 'stopped', at, signal: 'SIGTERM' });
    journal.close();
  }

  async #giveUp(): Promise<void> {
    const code = this.#child?.exitCode;
    const how = code === undefined ? '' : `, the last time with exit code ${code}`;
    const trouble = this.#trouble === '' ? '' : ` (${this.#trouble})`;
    const why = `Its supervisor ended ${maxTries} times in a row before anything happened${how}${trouble}. Its output is in the log.`;
    await this.#endAll(why);
  }

  async #endAll(why: string): Promise<void> {
    this.#isOver = true;
    const { clock } = this.#parts;
    const limit = limitOfProcesses(this.#limitFolder());
    await endTree({ members: () => this.#members(), limit, kill: killQuietly, clock, patience });
    this.#removeLeftovers();
    this.#onNews({ type: 'lost', why });
  }

  /** A journal that was removed does not tell it; its name does. */
  #limitFolder(): string | undefined {
    const { procRoot } = this.#parts;
    return this.#cgroup?.folder ?? findLimitCgroup(procRoot, this.#order.id, listKernelFolder);
  }

  /** What a supervisor takes away at the end of a run: here it has none. */
  #removeLeftovers(): void {
    const folder = this.#limitFolder();
    if (folder !== undefined) removeCgroup(folder);
    this.#folder.removeSocket();
  }

  #members(): readonly number[] {
    return membersOf({
      procRoot: this.#parts.procRoot,
      variable: `${runIdVariable}=${this.#order.id}`,
      roots: () => [],
      inLimit: limitOfProcesses(this.#limitFolder()).pids,
    });
  }
}
