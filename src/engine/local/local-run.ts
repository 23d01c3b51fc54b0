import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { listKernelFolder } from '../../device/kernel-files.js';
import { Failure } from '../../failure.js';
import { makeFolder } from '../../files/folders.js';
import { hasRoom } from '../../files/system-errors.js';
import { runIdVariable } from '../../run/attempt-environment.js';
import {
  findLimitCgroup,
  type LimitCgroup,
  limitOfProcesses,
  removeCgroup,
} from '../../run/limit/cgroup.js';
import { orderLimit } from '../../run/limit/moving-limit.js';
import type { LogLimit } from '../../run/log/log-limit.js';
import { endTree, killQuietly, membersOf } from '../../run/processes/end-tree.js';
import { openJournal } from '../../run/store/journal.js';
import { type JournalEntry, parseEntry } from '../../run/store/journal-entry.js';
import { RunFolder } from '../../run/store/run-folder.js';
import { supervisorOf } from '../../run/store/supervisor-lock.js';
import type { Clock } from '../../time/clock.js';
import type { RunNews, RunOrder } from '../types.js';

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

  /** Its supervisor finds it there, also one that comes later. */
  limit(bytes: number): void {
    this.#makeFolder();
    orderLimit(this.#folder.path, bytes);
  }

  #makeFolder(): void {
    if (this.#folder.readPlan() !== undefined) return;
    this.#folder.create({ ...this.#order, logLimit: this.#parts.logLimit });
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
    const { command, folder, environment } = this.#parts;
    this.#triedAt = nowSeconds;
    if (!hasRoom(this.#parts.home)) {
      // A supervisor would end at once, and says nothing against the run: it waits for room.
      if (this.#stop !== undefined) void this.#endAll(noRoom);
      return;
    }
    this.#tries++;
    this.#makeFolder();
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

/** Read at a time; a journal of thousands of rungs takes a few rounds. */
const chunkBytes = 256 * 1024;
/** An entry repeats its command, which may have 256 KiB, and its rungs. A longer line is damage. */
const longestLineBytes = 4 * 1024 * 1024;

/** Reads what was added to a run's journal since the last time. */
export class JournalTail {
  readonly #path: string;
  #at = 0;
  #rest: Buffer = Buffer.alloc(0);

  constructor(path: string) {
    this.#path = path;
  }

  /** All lines that are whole by now; a last one that is not waits for the next time. */
  read(): readonly JournalEntry[] {
    const size = statSync(this.#path, { throwIfNoEntry: false })?.size ?? 0;
    // A named pipe has no size: it is never opened, and so never waited for.
    if (size <= this.#at) return [];
    const entries: JournalEntry[] = [];
    const before = [this.#at, this.#rest] as const;
    const fd = openSync(this.#path, 'r');
    try {
      for (;;) {
        const buffer = Buffer.alloc(chunkBytes);
        const count = readSync(fd, buffer, 0, chunkBytes, this.#at);
        if (count === 0) return entries;
        this.#at += count;
        this.#take(buffer.subarray(0, count), entries);
      }
    } catch (error) {
      // A newer version wrote it: it is refused again at the next look, and nothing is passed over.
      [this.#at, this.#rest] = before;
      throw error;
    } finally {
      closeSync(fd);
    }
  }

  #take(bytes: Buffer, entries: JournalEntry[]): void {
    const all = Buffer.concat([this.#rest, bytes]);
    let from = 0;
    for (let end = all.indexOf(10); end !== -1; end = all.indexOf(10, from)) {
      const entry = parseEntry(all.toString('utf8', from, end), this.#path);
      if (entry !== undefined) entries.push(entry);
      from = end + 1;
    }
    this.#rest = all.length - from > longestLineBytes ? Buffer.alloc(0) : all.subarray(from);
  }
}

interface SupervisorOptions {
  /** The command `plimsoll` as this machine starts it, without arguments. */
  readonly command: readonly string[];
  readonly runId: string;
  /** All that it and the program print is added to it. */
  readonly log: string;
  readonly folder: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** A supervisor that was started from here. */
interface SupervisorProcess {
  readonly isAlive: boolean;
  /** Of one that ended; undefined while it lives. */
  readonly exitCode: number | undefined;
}

/**
 * Starts `plimsoll run --attach RUNID` in a session of its own: it outlives us, and no signal that is
 * meant for us reaches it. Which of two supervisors has a run is decided by the run's lock.
 */
function startSupervisor(options: SupervisorOptions, onEnd: () => void): SupervisorProcess {
  const [program = '', ...words] = options.command;
  makeFolder(dirname(options.log), 0o700);
  const log = openSync(options.log, 'a', 0o600);
  let isAlive = true;
  let exitCode: number | undefined;
  const ended = (code: number | undefined): void => {
    isAlive = false;
    exitCode = code;
    onEnd();
  };
  try {
    const child = spawn(program, [...words, 'run', '--attach', options.runId], {
      // It reads the configuration there; where the folder was removed there is none.
      cwd: existsSync(options.folder) ? options.folder : dirname(options.log),
      env: options.environment,
      stdio: ['ignore', log, log],
      detached: true,
    });
    child.once('error', () => ended(undefined));
    child.once('exit', (code) => ended(code ?? undefined));
    child.unref();
  } finally {
    closeSync(log);
  }
  return {
    get isAlive() {
      return isAlive;
    },
    get exitCode() {
      return exitCode;
    },
  };
}

/** So often in a row a supervisor may end without having done anything. */
export const maxTries = 5;
const firstPauseSeconds = 1;
/** How long a program has after it was asked to end. The third time its supervisor kills it. */
const graceSeconds = 10;
const askAgainSeconds = 1;

export interface Standing {
  readonly nowSeconds: number;
  /** The supervisor of the run; undefined where there is none. */
  readonly supervisor: number | undefined;
  /** One that was started from here and has not taken up the run yet, or has it. */
  readonly isStarting: boolean;
  /** Supervisors started since something last happened in the run. */
  readonly tries: number;
  readonly triedAt: number;
  readonly stop: undefined | { readonly asked: number; readonly askedAt: number };
}

type Step =
  | { readonly step: 'wait' | 'attach' | 'give-up' }
  | { readonly step: 'ask'; readonly pid: number };

/** What to do for a run that is not over. */
export function nextStep(at: Standing): Step {
  const { nowSeconds, supervisor, tries, stop } = at;
  if (supervisor !== undefined) {
    if (stop === undefined) return { step: 'wait' };
    const pause = [0, graceSeconds][stop.asked] ?? askAgainSeconds;
    return nowSeconds >= stop.askedAt + pause ? { step: 'ask', pid: supervisor } : { step: 'wait' };
  }
  if (at.isStarting) return { step: 'wait' };
  if (tries >= maxTries) return { step: 'give-up' };
  const pause = tries === 0 ? 0 : firstPauseSeconds * 2 ** (tries - 1);
  return nowSeconds >= at.triedAt + pause ? { step: 'attach' } : { step: 'wait' };
}
