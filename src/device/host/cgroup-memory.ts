import { join, posix } from 'node:path';
import type { Known } from '../../units/known.js';
import { readKernelFile, readKernelNumber } from '../kernel-files.js';

/** Machines with many containers have thousands of mounts, a line of some 200 bytes each. */
const mountinfoLimitBytes = 4 * 1024 * 1024;

/** The names under which the two versions keep the same figures. */
const files = {
  1: {
    limit: 'memory.limit_in_bytes',
    usage: 'memory.usage_in_bytes',
    cache: 'total_inactive_file',
  },
  2: { limit: 'memory.max', usage: 'memory.current', cache: 'inactive_file' },
} as const;

/** The limit that will be met first on the way up from this process. */
export interface CgroupLimit {
  readonly version: 1 | 2;
  /** The folder that sets it: everything below it counts against it. */
  readonly folder: string;
  readonly limitBytes: number;
}

export function findCgroup(procRoot: string): CgroupPlace | undefined {
  const cgroups = readKernelFile(join(procRoot, 'self/cgroup'));
  const mounts = readKernelFile(join(procRoot, 'self/mountinfo'), mountinfoLimitBytes);
  if (cgroups === undefined || mounts === undefined) return undefined;
  return findMemoryCgroup(cgroups, mounts);
}

/** The tightest limit from the process' own cgroup up; the outermost where two are equal. */
export function tightestLimit(place: CgroupPlace): CgroupLimit | undefined {
  let tightest: CgroupLimit | undefined;
  for (const folder of place.folders) {
    // Old kernels let a version 1 parent count itself alone; its limit then is none of ours.
    const isAlone = readKernelNumber(join(folder, 'memory.use_hierarchy')) === 0;
    if (place.version === 1 && isAlone && folder !== place.folders[0]) break;
    // "max" is no number, and no limit. Version 1 writes "none" as a number far above any RAM.
    const limitBytes = readKernelNumber(join(folder, files[place.version].limit));
    if (limitBytes === undefined || !Number.isSafeInteger(limitBytes)) continue;
    if (tightest === undefined || limitBytes <= tightest.limitBytes) {
      tightest = { version: place.version, folder, limitBytes };
    }
  }
  return tightest;
}

/**
 * Returns the use under a limit, as the kernel and Kubernetes count it: without inactive file
 * pages, which are freed before a process is killed.
 */
export function usedUnderLimit({ version, folder }: CgroupLimit): Known<number> {
  const usage = readKernelNumber(join(folder, files[version].usage));
  if (usage === undefined) return 'unknown';
  const stat = readKernelFile(join(folder, 'memory.stat')) ?? '';
  const cache = new RegExp(`^${files[version].cache} (\\d+)$`, 'm').exec(stat)?.[1];
  return Math.max(0, usage - Number(cache ?? 0));
}

/** The folder of this process' memory cgroup, and the topmost one that can be seen. */
interface CgroupPlace {
  readonly version: 1 | 2;
  /** From the process' own folder up to the mount point. */
  readonly folders: readonly string[];
}

/**
 * Finds where the memory of this process is counted, from /proc/self/cgroup and
 * /proc/self/mountinfo. Version 1 wins where both are mounted, if it has the memory controller.
 * Undefined where no memory cgroup is mounted.
 *
 * @example
 * findMemoryCgroup('0::/job\n', '30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n');
 * // { version: 2, folders: ['/sys/fs/cgroup/job', '/sys/fs/cgroup'] }
 */
export function findMemoryCgroup(cgroups: string, mountinfo: string): CgroupPlace | undefined {
  for (const version of [1, 2] as const) {
    const path = cgroupPath(cgroups, version);
    const mount = cgroupMount(mountinfo, version);
    if (path === undefined || mount === undefined) continue;
    return { version, folders: foldersUp(mount.point, relativePath(path, mount.root)) };
  }
  return undefined;
}

function cgroupPath(text: string, version: 1 | 2): string | undefined {
  for (const line of text.split('\n')) {
    const match = /^\d+:([^:]*):(\/.*)$/.exec(line);
    if (match === null) continue;
    const controllers = (match[1] ?? '').split(',');
    if (version === 2 ? match[1] === '' : controllers.includes('memory')) return match[2];
  }
  return undefined;
}

function cgroupMount(text: string, version: 1 | 2): { root: string; point: string } | undefined {
  for (const line of text.split('\n')) {
    // id parent major:minor ROOT POINT options [optional...] - TYPE source SUPER-OPTIONS
    const [before, after] = line.split(' - ');
    const [type, , superOptions] = (after ?? '').split(' ');
    const [, , , root, point] = (before ?? '').split(' ');
    if (root === undefined || point === undefined) continue;
    const isMemory = (superOptions ?? '').split(',').includes('memory');
    if (version === 2 ? type === 'cgroup2' : type === 'cgroup' && isMemory) {
      return { root: unescape(root), point: unescape(point) };
    }
  }
  return undefined;
}

/**
 * In a container the mount may show only a part of the tree (its root), while the path is that of
 * the whole tree, or leads out of it (`/..`): then the mount point itself is the best we can see.
 */
function relativePath(path: string, root: string): string {
  const clean = posix.normalize(path);
  if (root === '/') return path.startsWith('/..') ? '/' : clean;
  if (clean === root) return '/';
  return clean.startsWith(`${root}/`) ? clean.slice(root.length) : '/';
}

function foldersUp(point: string, path: string): readonly string[] {
  const folders: string[] = [];
  for (let rest = path; rest !== '/' && rest !== '.'; rest = posix.dirname(rest)) {
    folders.push(posix.join(point, rest));
  }
  return [...folders, point];
}

/** The kernel writes blanks in paths as octal: `\040`. */
function unescape(path: string): string {
  return path.replace(/\\([0-7]{3})/g, (_, octal: string) =>
    String.fromCharCode(Number.parseInt(octal, 8)),
  );
}
