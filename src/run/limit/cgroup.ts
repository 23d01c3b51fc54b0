import {
  closeSync,
  constants,
  mkdirSync,
  openSync,
  readSync,
  rmdirSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { findCgroup } from '../../device/host/cgroup-memory.js';
import { readKernelFile, readKernelNumber } from '../../device/kernel-files.js';
import { isKnown, type Known } from '../../units/known.js';

/** The names under which the two versions keep the same things. */
const names = {
  1: {
    limit: 'memory.limit_in_bytes',
    withSwap: 'memory.memsw.limit_in_bytes',
    events: 'memory.oom_control',
    held: ['total_rss', 'total_shmem'],
  },
  2: {
    limit: 'memory.max',
    withSwap: 'memory.swap.max',
    events: 'memory.events',
    held: ['anon', 'shmem'],
  },
} as const;

/** All cgroups that we make are named so; the next run sweeps those that were left. */
const cgroupPrefix = 'plimsoll-run-';

/** A limit of our own in the kernel's books. */
export interface LimitCgroup {
  readonly version: 1 | 2;
  readonly folder: string;
  /** A process that writes its pid there is limited. */
  readonly procs: string;
}

/** How folders are made; the kernel fills a new one with files, a test must do that by itself. */
type MakeFolder = (path: string) => void;

/**
 * Makes a cgroup with a limit below ours, or beside it where ours may have none below (version 2
 * wants a cgroup to hold either processes or other cgroups).
 */
export function makeLimitCgroup(options: {
  readonly procRoot: string;
  readonly name: string;
  readonly limitBytes: number;
  /** What has that name holds the attempt, which runs already. */
  readonly isRunning?: boolean | undefined;
  readonly makeFolder?: MakeFolder;
}): LimitCgroup | { readonly why: string } {
  const place = findCgroup(options.procRoot);
  if (place === undefined) return { why: 'no memory cgroup is mounted' };
  const { version, folders } = place;
  let why = 'no cgroup can be made';
  for (const above of folders.slice(0, version === 2 ? 2 : 1)) {
    const folder = join(above, `${cgroupPrefix}${options.name}`);
    try {
      (options.makeFolder ?? mkdirSync)(folder);
    } catch (error) {
      // Its name is that of one attempt: a supervisor that was killed right after it made it left it.
      const isOurs = options.isRunning === true || cgroupPids(folder).length === 0;
      if (codeOf(error) !== 'EEXIST' || !isOurs) {
        why = `no cgroup can be made in ${above} (${codeOf(error)})`;
        continue;
      }
    }
    const problem = setLimit(version, folder, options.limitBytes);
    if (problem === undefined) return { version, folder, procs: join(folder, 'cgroup.procs') };
    removeCgroup(folder);
    why = problem;
  }
  return { why };
}

function setLimit(version: 1 | 2, folder: string, limitBytes: number): string | undefined {
  const { limit, withSwap } = names[version];
  if (readKernelFile(join(folder, limit)) === undefined) {
    return `the memory controller is not on in ${dirname(folder)}`;
  }
  try {
    writeFileSync(join(folder, limit), String(limitBytes));
  } catch (error) {
    return `its limit cannot be set (${codeOf(error)})`;
  }
  try {
    // Swap would only make it slow before it fails.
    writeFileSync(join(folder, withSwap), version === 1 ? String(limitBytes) : '0');
  } catch {
    // Kernels without accounting of swap have no such file.
  }
  return undefined;
}

/** Moves the limit of a cgroup that has processes; answers why it could not. */
export function moveCgroupLimit(cgroup: LimitCgroup, limitBytes: number): string | undefined {
  const { version, folder } = cgroup;
  const before = limitOf(cgroup);
  const isHigher = !isKnown(before) || limitBytes > before;
  // Version 1 refuses a limit above that of memory and swap together.
  if (version === 1 && isHigher) raiseWithSwap(folder, limitBytes);
  return setLimit(version, folder, limitBytes);
}

function raiseWithSwap(folder: string, limitBytes: number): void {
  try {
    writeFileSync(join(folder, names[1].withSwap), String(limitBytes));
  } catch {
    // Kernels without accounting of swap have no such file.
  }
}

/** What the kernel counted in a cgroup. */
export interface CgroupReading {
  /** Without the page cache, which goes before anything is killed. */
  readonly heldBytes: Known<number>;
  /** Processes killed for want of memory, since it was made. */
  readonly kills: Known<number>;
}

export function readCgroup({ version, folder }: Omit<LimitCgroup, 'procs'>): CgroupReading {
  const stat = readKernelFile(join(folder, 'memory.stat'));
  const parts = names[version].held.map(
    (name) => new RegExp(String.raw`^${name} (\d{1,16})$`, 'm').exec(stat ?? '')?.[1],
  );
  const events = readKernelFile(join(folder, names[version].events)) ?? '';
  const kills = /^oom_kill (\d{1,15})$/m.exec(events)?.[1];
  return {
    heldBytes:
      parts[0] === undefined ? 'unknown' : parts.reduce((sum, part) => sum + Number(part ?? 0), 0),
    kills: kills === undefined ? 'unknown' : Number(kills),
  };
}

export function cgroupPids(folder: string): readonly number[] {
  const text = readKernelFile(join(folder, 'cgroup.procs')) ?? '';
  return text.split('\n').flatMap((line) => (/^[1-9]\d*$/.test(line) ? [Number(line)] : []));
}

/** The processes in a cgroup; none where there is no cgroup. */
export function limitOfProcesses(folder: string | undefined): {
  readonly pids: () => readonly number[];
  /** All at once, however fast they fork, where the kernel can. */
  readonly killAll: () => void;
} {
  return {
    pids: () => (folder === undefined ? [] : cgroupPids(folder)),
    killAll() {
      if (folder === undefined) return;
      try {
        writeFileSync(join(folder, 'cgroup.kill'), '1', { flag: 'r+' });
      } catch {
        // Version 1, and kernels before 5.14.
      }
    },
  };
}

/** Whether it is gone; the kernel keeps one that still has processes. */
export function removeCgroup(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch (error) {
    return codeOf(error) === 'ENOENT';
  }
}

/** Our own cgroup's count of kills, and how sure it is: for jobs that have no limit from us. */
export function readOwnKills(procRoot: string): Known<number> {
  const place = findCgroup(procRoot);
  const own = place?.folders[0];
  if (place !== undefined && own !== undefined) {
    const { kills } = readCgroup({ version: place.version, folder: own });
    if (kills !== 'unknown') return kills;
  }
  const vmstat = readKernelFile(join(procRoot, 'vmstat')) ?? '';
  const count = /^oom_kill (\d{1,15})$/m.exec(vmstat)?.[1];
  return count === undefined ? 'unknown' : Number(count);
}

/** The cgroups that were made for runs, in the places where we make them. */
export function listLimitCgroups(
  procRoot: string,
  list: (folder: string) => readonly string[],
): readonly string[] {
  const place = findCgroup(procRoot);
  return (place?.folders.slice(0, 2) ?? []).flatMap((above) =>
    list(above)
      .filter((name) => name.startsWith(cgroupPrefix))
      .map((name) => join(above, name)),
  );
}

/** The limit of a run, by its name: for one whose files do not tell. */
export function findLimitCgroup(
  procRoot: string,
  runId: string,
  list: (folder: string) => readonly string[],
): string | undefined {
  const start = `${cgroupPrefix}${runId}-`;
  return listLimitCgroups(procRoot, list).findLast((folder) => basename(folder).startsWith(start));
}

export function limitOf({ version, folder }: LimitCgroup): Known<number> {
  return readKernelNumber(join(folder, names[version].limit)) ?? 'unknown';
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : String(error);
}

/** One record of the kernel's log has at most 1 KiB; the log itself some MiB. */
const recordBytes = 8192;
const maxRecords = 20_000;

/**
 * The processes that the kernel's log says it killed for want of memory; `unknown` where the log
 * may not be read, as is usual for people who are not root.
 */
export function killedByKernel(path = '/dev/kmsg'): ReadonlySet<number> | 'unknown' {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  } catch {
    return 'unknown';
  }
  const pids = new Set<number>();
  const buffer = Buffer.allocUnsafe(recordBytes);
  try {
    for (let record = 0; record < maxRecords; record++) {
      const count = readSync(fd, buffer, 0, buffer.length, null);
      if (count === 0) break;
      for (const pid of killedIn(buffer.toString('utf8', 0, count))) pids.add(pid);
    }
  } catch {
    // EAGAIN is its end; EPIPE means that the oldest records were lost while we read.
  } finally {
    closeSync(fd);
  }
  return pids;
}

/**
 * The pids in a text of the kernel's log.
 *
 * @example
 * killedIn('Memory cgroup out of memory: Killed process 4711 (python) total-vm:1kB'); // [4711]
 */
export function killedIn(text: string): readonly number[] {
  return [
    ...text.matchAll(/[Oo]ut of memory(?: \([^)]{1,60}\))?: Kill(?:ed)? process (\d{1,10})/g),
  ].map((match) => Number(match[1]));
}
