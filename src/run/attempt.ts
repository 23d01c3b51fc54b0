import { readKernelFile } from '../device/kernel-files.js';
import { isKnown, type Known } from '../units/known.js';
import type { Account } from './account.js';
import { runIdVariable } from './attempt-environment.js';
import { Coordinator } from './bridge/coordinator.js';
import { listenForSdk } from './bridge/unix-socket.js';
import { describeAttempt } from './describe-attempt.js';
import { climbed, notBefore } from './ladder/climb.js';
import { LastLines } from './last-lines.js';
import type { LaunchedProcess } from './launch/launch.js';
import {
  type LimitCgroup,
  limitOfProcesses,
  readCgroup,
  readOwnKills,
  removeCgroup,
} from './limit/cgroup.js';
import { killedByKernel } from './limit/kernel-log.js';
import { MemoryCurve } from './memory-curve.js';
import { createPeakMeter } from './peak-meter.js';
import { endTree, killQuietly } from './processes/end-tree.js';
import { type Membership, membersOf } from './processes/members.js';
import { HolderBook, sumBytes } from './processes/memory-holders.js';
import { readCommandLine } from './processes/process-facts.js';
import { ageSeconds } from './processes/process-table.js';
import { ProgressBook, statedBatch } from './progress.js';
import { concludeOutOfMemory, wasShort } from './recognise/conclude.js';
import { createScanner } from './recognise/scanner.js';
import type { RunContext } from './run-context.js';
import { readNumberFile } from './store/number-file.js';
import type {
  Attempt,
  ClimbedRung,
  EnforcedLimit,
  OutOfMemory,
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
  const coordinator = new Coordinator(clock, {
    limitBytes: () => start.memoryBytes ?? 'unknown',
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
  });
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
  const onGpu = start.settings.device !== 'host';
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
      memoryWasShort: wasShort(reached, start.memoryBytes),
    });
    // A file that another account names is not read by root.
    const snapshot = start.account === undefined ? coordinator.snapshot : null;
    if (start.cgroup !== undefined) removeCgroup(start.cgroup.folder);
    return {
      attempt: describeAttempt(start, {
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
        measured: coordinator.measured,
        launchers: [...launched].toSorted(),
        // By what passed: the date may have been set meanwhile.
        endedMs: Date.parse(start.startedAt) + (clock.seconds() - beganAt) * 1000,
      }),
      baseBytes: coordinator.baseBytes,
      madeProgress: coordinator.steps > 0 || coordinator.hasSaved,
      savesItself: coordinator.hasSaved,
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
