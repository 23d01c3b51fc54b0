import { stripVTControlCharacters } from 'node:util';
import { readKernelFile } from '../device/kernel-files.js';
import { formatBytes } from '../units/bytes.js';
import { isKnown, type Known } from '../units/known.js';
import { runIdVariable } from './attempt-environment.js';
import { Coordinator } from './bridge/coordinator.js';
import type { GroupEvents } from './bridge/group.js';
import { type LimitAnswer, type LimitOrder, Spilling } from './bridge/spilling.js';
import { listenForSdk } from './bridge/unix-socket.js';
import { climbed, notBefore } from './ladder/climb.js';
import type { LaunchedProcess } from './launch/launch.js';
import {
  killedByKernel,
  type LimitCgroup,
  limitOfProcesses,
  readCgroup,
  readOwnKills,
  removeCgroup,
} from './limit/cgroup.js';
import { MovingLimit } from './limit/moving-limit.js';
import { createPeakMeter } from './peak-meter.js';
import { endTree, killQuietly, type Membership, membersOf } from './processes/end-tree.js';
import { HolderBook, sumBytes } from './processes/memory-holders.js';
import { readCommandLine } from './processes/process-facts.js';
import { ageSeconds } from './processes/process-table.js';
import { ProgressBook, statedBatch } from './progress.js';
import { createScanner } from './recognise/scanner.js';
import type { RunContext } from './run-context.js';
import { readNumberFile } from './store/run-folder.js';
import type {
  Account,
  Attempt,
  AttemptBuffers,
  AttemptSpill,
  ClimbedRung,
  EnforcedLimit,
  MeasuredSize,
  MemoryHolders,
  MemoryPoint,
  OutOfMemory,
  PeakSource,
  ProgressPoint,
  RunSettings,
} from './types.js';

/** Looks at the memory so often; the whole process table costs more and is read less often. */
const sampleSeconds = 0.5;
const tableEvery = 4;
const early = 10;
const deviceEvery = 2;
/** More than any program climbs; one that tells of rungs without end must not fill the disk. */
const maxRungs = 10_000;
/** For output that something we cannot reach still holds open. */
const drainMs = 2000;

export interface AttemptStart {
  readonly runId: string;
  readonly number: number;
  readonly settings: RunSettings;
  readonly command: readonly string[];
  readonly startedAt: string;
  /** Of one that was started before we came, while it lives. */
  readonly firstPid: number | undefined;
  readonly bridge: string;
  /** What the program runs as, where it is another account than ours. */
  readonly account: Account | undefined;
  readonly memoryBytes: number | undefined;
  /** The CUDA context beside that, as a limit that is asked for later has it in it. */
  readonly besideBytes: number;
  /** The limit that was asked for last while the run goes on. */
  readonly limitOrder: () => LimitOrder | undefined;
  readonly onLimited: (answer: LimitAnswer) => void;
  readonly limit: EnforcedLimit;
  readonly cgroup: LimitCgroup | undefined;
  readonly killsBefore: Known<number>;
  /** Where a sweep wrote down what the cgroup had counted. */
  readonly killsFile: string;
  /** Rungs that were climbed in it before we came. */
  readonly rungs: readonly ClimbedRung[];
  readonly onRung: (rung: ClimbedRung) => void;
  /** The steps that it told of so far. */
  readonly onProgress: (points: readonly ProgressPoint[]) => void;
  /** Starts the job, or takes up one that runs. */
  readonly open: (onOutput: (bytes: Uint8Array) => void) => LaunchedProcess;
}

/** An attempt that goes on. */
export interface LiveAttempt {
  readonly ended: Promise<EndedAttempt>;
  signal(signal: NodeJS.Signals): void;
  killAll(): void;
  resize(): void;
}

export interface EndedAttempt {
  readonly attempt: Attempt;
  readonly baseBytes: Known<number>;
  /** Whether it told of steps that went well. */
  readonly madeProgress: boolean;
  /** Whether it wrote checkpoints, and so goes on by itself when it is started again. */
  readonly savesItself: boolean;
  /** Whether its memory can give way, so that it may be started again with spilling. */
  readonly canSpill: boolean;
  readonly leftBehind: readonly number[];
}

/** Watches over one attempt from its start to the end of the last process it left. */
export async function beginAttempt(start: AttemptStart, context: RunContext): Promise<LiveAttempt> {
  const { clock, procRoot } = context;
  const beganAt = clock.seconds() - sinceStart(start, context);
  const scanner = createScanner();
  const printed = new LastLines();
  const curve = new MemoryCurve();
  const rungs: ClimbedRung[] = [...start.rungs];
  const progress = new ProgressBook();
  const batch = statedBatch(start.settings, start.command);
  let reported: OutOfMemory | undefined;
  const onGpu = start.settings.device !== 'host';
  const moving = new MovingLimit({
    start: start.limit,
    onHost: !onGpu,
    cgroup: start.cgroup,
    besideBytes: start.besideBytes,
    read: start.limitOrder,
    onAnswer: start.onLimited,
  });
  const spilling: Spilling = new Spilling(start.memoryBytes, (answer) =>
    moving.answered(answer, spilling),
  );
  const events: GroupEvents = {
    limitBytes: () => spilling.limitBytes,
    onRung(rung, why, secondsAgo) {
      const at = clock.seconds() - secondsAgo - beganAt;
      const step = climbed({ rung, why }, notBefore(at, start.rungs));
      if (rungs.length >= maxRungs) return;
      rungs.push(step);
      start.onRung(step);
    },
    onOutOfMemory(outOfMemory) {
      reported = outOfMemory;
    },
    onStep() {
      reported = undefined;
    },
    onProgress(step) {
      progress.add(clock.seconds() - beganAt, { ...batch, ...step });
      start.onProgress(progress.points);
    },
  };
  const coordinator = new Coordinator(clock, events, spilling);
  // Before the job: its first word must find a listener. Without one it decides by itself.
  const bridge = await listenForSdk(start.bridge, coordinator, start.account).catch(
    () => undefined,
  );
  const job = start.open((bytes) => {
    scanner.take(bytes);
    printed.take(bytes);
  });
  let hasEnded = false;
  let jobPid: number | undefined;
  const started = job.pid.then((pid) => (jobPid = pid));
  const { orphans } = context;
  const limit = limitOfProcesses(start.cgroup?.folder);
  /** Also those that came after the table was read, of a chain of processes that fork and end. */
  const quickly = () => {
    orphans.reap(hasEnded ? undefined : jobPid);
    return [...limit.pids(), ...orphans.now()];
  };
  const membership: Membership = {
    procRoot,
    variable: `${runIdVariable}=${start.runId}`,
    // Their numbers may be given to others once they have ended.
    roots: (table) => [
      ...(hasEnded ? [] : [job.keeperPid, jobPid].filter((pid) => pid !== undefined)),
      ...orphans.in(table),
    ],
    inLimit: quickly,
  };
  const members = () => membersOf(membership);
  const meter = createPeakMeter({ procRoot, cgroup: start.cgroup, onGpu });
  const holders = new HolderBook((pid) => readCommandLine(procRoot, pid));

  async function toItsEnd(): Promise<EndedAttempt> {
    const over = new AbortController();
    const watching = watchMemory(over.signal);
    let exitCode: Known<number>;
    try {
      exitCode = await job.ended;
    } catch (error) {
      await job.drained(drainMs);
      await bridge?.close();
      if (start.cgroup !== undefined) removeCgroup(start.cgroup.folder);
      throw error;
    } finally {
      hasEnded = true;
      over.abort();
      await watching;
    }
    const pids = new Set([jobPid ?? 0, ...seen]);
    const evidence = {
      exitCode,
      killsInLimit: killsIn(start),
      killedByKernel: wasKilledByKernel(pids, start.killsBefore, procRoot),
      limit: start.limit,
      reported,
    };
    const leftBehind = await endTree({
      members,
      limit: { killAll: limit.killAll, pids: quickly },
      kill: killQuietly,
      clock,
      patience: context.patience,
    });
    await job.drained(drainMs);
    await bridge?.close();
    const peak = meter.peak(coordinator.peakBytes);
    // Under a limit on the address space what counts is what was mapped, not what was resident.
    const reached = start.limit.by === 'address-space' ? meter.mappedBytes : peak.bytes;
    const outOfMemory = concludeOutOfMemory({
      ...evidence,
      read: scanner.found()?.outOfMemory,
      suspected: scanner.suspected()?.outOfMemory,
      memoryWasShort: wasShort(reached, spilling.limitBytes),
    });
    // A file that another account names is not read by root.
    const snapshot = start.account === undefined ? coordinator.snapshot : null;
    if (start.cgroup !== undefined) removeCgroup(start.cgroup.folder);
    return {
      attempt: describeAttempt(
        { ...start, limit: moving.enforced },
        {
          exitCode,
          outOfMemory,
          rungs,
          peak,
          snapshot,
          progress: progress.points,
          memory: curve.points,
          holders: holders.holders,
          lastLines: printed.lines,
          buffers: coordinator.buffers,
          spill: spilling.figures,
          measured: coordinator.measured,
          launchers: [...launched].toSorted(),
          // By what passed: the date may have been set meanwhile.
          endedMs: Date.parse(start.startedAt) + (clock.seconds() - beganAt) * 1000,
        },
      ),
      baseBytes: coordinator.baseBytes,
      madeProgress: coordinator.steps > 0 || coordinator.hasSaved,
      savesItself: coordinator.hasSaved,
      canSpill: spilling.canSpill,
      leftBehind,
    };
  }

  const seen = new Set<number>();
  const launched = new Set(launchersIn(start.command));
  async function watchMemory(signal: AbortSignal): Promise<void> {
    let pids: readonly number[] = [];
    for (let tick = 0; !signal.aborted; tick++) {
      // A launcher may be there for a moment only.
      if (tick % tableEvery === 0 || tick < early) {
        pids = membersOf(membership, 'below');
        for (const pid of pids) {
          seen.add(pid);
          const name = (readKernelFile(`${procRoot}/${pid}/comm`) ?? '').trim();
          if (launchers.has(name)) launched.add(name);
        }
      }
      moving.look(spilling);
      const at = clock.seconds() - beganAt;
      const { heldBytes, processes } = meter.sample(
        jobPid === undefined ? pids : [...new Set([jobPid, ...pids])],
      );
      if (isKnown(heldBytes)) curve.add(at, heldBytes);
      // The keeper is ours, not the program's.
      if (!onGpu)
        holders.add(
          at,
          processes.filter(({ pid }) => pid !== job.keeperPid),
        );
      if (tick % deviceEvery === 0 && onGpu) {
        const held = await context.readDevice(pids);
        if (held !== undefined) {
          meter.sawOnDevice(sumBytes(held.processes));
          holders.add(at, held.processes, held.othersBytes);
        }
      }
      await clock.waitUntil(clock.seconds() + sampleSeconds, signal);
    }
  }

  return {
    ended: toItsEnd(),
    signal(name) {
      // A job that is being started hears it as soon as it is there.
      void started.then((pid) => pid !== undefined && killQuietly(pid, name));
    },
    killAll() {
      // The keeper ends by itself, and tells how the job did.
      for (const pid of members()) if (pid !== job.keeperPid) killQuietly(pid, 'SIGKILL');
    },
    resize() {
      job.resize();
      // The terminal told all of us at once; a program that asked for the size before it was set asks again.
      if (jobPid !== undefined) killQuietly(jobPid, 'SIGWINCH');
    },
  };
}

/**
 * Programs that hand the work to processes elsewhere: to other nodes, or to a daemon of a cluster on
 * this one, outside of the tree of processes that is measured.
 */
const launchers: ReadonlySet<string> = new Set([
  'srun',
  'mpirun',
  'mpiexec',
  'mpiexec.hydra',
  'orterun',
  'prterun',
  'jsrun',
  'aprun',
]);

/** Those that a command names as its program, or in the text of a shell. */
function launchersIn([program = '', ...rest]: readonly string[]): readonly string[] {
  const isShell = /(?:^|\/)(?:ba|da|k|z)?sh$/.test(program);
  const text = isShell && /^-\w*c$/.test(rest[0] ?? '') ? (rest[1] ?? '') : '';
  return [program, ...text.split(/[\s;&|()]+/)]
    .map((word) => word.slice(word.lastIndexOf('/') + 1))
    .filter((word) => launchers.has(word));
}

/** Of one that was started before we came, its first process knows better than the date. */
function sinceStart({ startedAt, firstPid }: AttemptStart, context: RunContext): number {
  const age = firstPid === undefined ? undefined : ageSeconds(context.procRoot, firstPid);
  return age ?? Math.max(0, (context.clock.epochMs() - Date.parse(startedAt)) / 1000);
}

function killsIn({ cgroup, killsFile }: AttemptStart): Known<number> {
  if (cgroup === undefined) return 0;
  const { kills } = readCgroup(cgroup);
  return kills === 'unknown' ? (readNumberFile(killsFile) ?? 'unknown') : kills;
}

/** By the kernel's log where it may be read: it names the process. Else by the count of our cgroup. */
function wasKilledByKernel(
  pids: ReadonlySet<number>,
  before: Known<number>,
  procRoot: string,
): Known<boolean> {
  const now = readOwnKills(procRoot);
  if (now === 'unknown' || before === 'unknown') return 'unknown';
  if (now <= before) return false;
  const named = killedByKernel();
  return named === 'unknown' ? true : [...pids].some((pid) => named.has(pid));
}

/** The end of a traceback, and what was printed before it. */
const maxLines = 12;
const maxBytes = 8 * 1024;
const longestLine = 400;

/** The end of what a program printed, at a cost that does not grow with its output. */
export class LastLines {
  #tail = Buffer.alloc(0);

  take(chunk: Uint8Array): void {
    const joined = Buffer.concat([this.#tail, chunk.subarray(-maxBytes)]);
    this.#tail = Buffer.from(joined.subarray(-maxBytes));
  }

  /** Without colours; of a progress bar that was drawn over and over only its last state. */
  get lines(): readonly string[] {
    return stripVTControlCharacters(this.#tail.toString('utf8'))
      .split('\n')
      .map((line) => (line.replace(/\r+$/, '').split('\r').at(-1) ?? '').trimEnd())
      .filter((line) => line !== '')
      .slice(-maxLines)
      .map((line) => line.slice(0, longestLine));
  }
}

/** As many as a chart shows; twice as many are kept before neighbours are joined. */
const maxPoints = 120;

/** Memory of an attempt over time, in few points however long it takes: of two neighbours the higher stays. */
export class MemoryCurve {
  #points: MemoryPoint[] = [];
  #least = 0;

  add(atSeconds: number, bytes: number): void {
    const last = this.#points.at(-1);
    if (last !== undefined && atSeconds - last.atSeconds < this.#least) {
      if (bytes > last.bytes) this.#points[this.#points.length - 1] = { ...last, bytes };
      return;
    }
    this.#points.push({ atSeconds: Math.round(atSeconds * 100) / 100, bytes });
    if (this.#points.length < 2 * maxPoints) return;
    this.#points = joinedPoints(this.#points);
    const [first] = this.#points;
    this.#least = (atSeconds - (first?.atSeconds ?? 0)) / maxPoints;
  }

  get points(): readonly MemoryPoint[] {
    return this.#points.length > maxPoints ? joinedPoints(this.#points) : this.#points;
  }
}

function joinedPoints(points: readonly MemoryPoint[]): MemoryPoint[] {
  const halved: MemoryPoint[] = [];
  for (let at = 0; at < points.length; at += 2) {
    const [one, other] = [points[at], points[at + 1]];
    if (one === undefined) continue;
    halved.push({ ...one, bytes: Math.max(one.bytes, other?.bytes ?? 0) });
  }
  return halved;
}

/** How a program ended: by itself, or by a signal, which a shell tells as 128 and its number. */
const killedExitCode = 137;

/** All that could be seen of an attempt's end. */
export interface Evidence {
  readonly exitCode: Known<number>;
  /** Processes that the kernel killed inside the limit we set. */
  readonly killsInLimit: Known<number>;
  /** Whether the kernel killed one of this program's processes for want of memory elsewhere. */
  readonly killedByKernel: Known<boolean>;
  readonly limit: EnforcedLimit;
  /** What the SDK reported of an out-of-memory that it could not recover from. */
  readonly reported: OutOfMemory | undefined;
  /** What was read in the program's output. */
  readonly read: OutOfMemory | undefined;
  /** What was read there and may have another cause. */
  readonly suspected?: OutOfMemory | undefined;
  /** Whether the program came near its limit. */
  readonly memoryWasShort?: boolean;
}

/** A program whose peak passed this share of its limit was short of memory. */
const shortShare = 0.9;

/**
 * Whether a peak came near a limit.
 *
 * @example
 * wasShort(950, 1000); // true
 */
export function wasShort(peakBytes: Known<number>, limitBytes: Known<number>): boolean {
  return isKnown(peakBytes) && isKnown(limitBytes) && peakBytes >= limitBytes * shortShare;
}

/**
 * Whether an attempt ended for want of memory. A manual `kill -9` is none: only a counter of the
 * kernel makes a killed process one.
 *
 * @example
 * concludeOutOfMemory({ ...evidence, exitCode: 137, killsInLimit: 1 })?.kind; // 'killed-at-limit'
 */
export function concludeOutOfMemory(evidence: Evidence): OutOfMemory | null {
  const { exitCode, killsInLimit, limit, reported, read } = evidence;
  if (exitCode === 0) return null;
  if (reported !== undefined) return reported;
  if (isKnown(killsInLimit) && killsInLimit > 0) return killedAtLimit(limit, killsInLimit);
  if (exitCode === killedExitCode && evidence.killedByKernel === true) {
    return {
      kind: 'killed-by-kernel',
      askedBytes: 'unknown',
      freeBytes: 'unknown',
      totalBytes: 'unknown',
      message: 'The kernel killed it because the memory of the machine, or of its group, was full.',
    };
  }
  return read ?? (evidence.memoryWasShort === true ? evidence.suspected : undefined) ?? null;
}

function killedAtLimit(limit: EnforcedLimit, kills: number): OutOfMemory {
  const totalBytes = limit.bytes === 'none' ? 'unknown' : limit.bytes;
  const who = kills === 1 ? 'a process' : `${kills} processes`;
  return {
    kind: 'killed-at-limit',
    askedBytes: 'unknown',
    freeBytes: 0,
    totalBytes,
    message: `The kernel killed ${who} at the limit of ${formatBytes(totalBytes)}.`,
  };
}

/** An attempt that has ended, as it stands in the report. */
function describeAttempt(
  start: {
    readonly number: number;
    readonly settings: RunSettings;
    readonly command: readonly string[];
    readonly startedAt: string;
    readonly limit: EnforcedLimit;
  },
  end: {
    readonly exitCode: Known<number>;
    readonly outOfMemory: OutOfMemory | null;
    readonly rungs: readonly ClimbedRung[];
    readonly peak: { readonly bytes: Known<number>; readonly from: PeakSource };
    readonly snapshot: string | null;
    readonly progress: readonly ProgressPoint[];
    readonly memory: readonly MemoryPoint[];
    readonly holders: MemoryHolders | undefined;
    readonly lastLines: readonly string[];
    readonly buffers: AttemptBuffers | undefined;
    readonly spill: AttemptSpill | undefined;
    readonly measured: readonly MeasuredSize[];
    readonly launchers: readonly string[];
    readonly endedMs: number;
  },
): Attempt {
  return {
    number: start.number,
    settings: start.settings,
    command: start.command,
    startedAt: start.startedAt,
    endedAt: new Date(Math.round(end.endedMs)).toISOString(),
    exitCode: end.exitCode,
    outOfMemory: end.outOfMemory,
    rungs: end.rungs,
    peakBytes: end.peak.bytes,
    source: 'measured',
    peakFrom: end.peak.from,
    limit: start.limit,
    snapshot: end.snapshot === null ? null : { file: end.snapshot, findings: [] },
    ...(end.outOfMemory !== null && {
      memory: end.memory,
      ...(end.holders !== undefined && { holders: end.holders }),
      lastLines: end.lastLines,
      ...(end.measured.length > 0 && { measuredSizes: end.measured }),
    }),
    ...(end.progress.length === 0 ? {} : { progress: end.progress }),
    ...(end.buffers === undefined ? {} : { buffers: end.buffers }),
    ...(end.spill === undefined ? {} : { spill: end.spill }),
    ...(end.launchers.length === 0 ? {} : { launchers: end.launchers }),
  };
}
