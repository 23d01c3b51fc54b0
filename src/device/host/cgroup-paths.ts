import { posix } from 'node:path';

/** The folder of this process' memory cgroup, and the topmost one that can be seen. */
export interface CgroupPlace {
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
