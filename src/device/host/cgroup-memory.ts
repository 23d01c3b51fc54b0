import { join } from 'node:path';
import type { Known } from '../../units/known.js';
import { readKernelFile, readKernelNumber } from '../kernel-files.js';
import { type CgroupPlace, findMemoryCgroup } from './cgroup-paths.js';

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
 * What is used under a limit, the way the kernel and Kubernetes see it: the usage without file
 * pages not touched of late, which go before anything is killed.
 */
export function usedUnderLimit({ version, folder }: CgroupLimit): Known<number> {
  const usage = readKernelNumber(join(folder, files[version].usage));
  if (usage === undefined) return 'unknown';
  const stat = readKernelFile(join(folder, 'memory.stat')) ?? '';
  const cache = new RegExp(`^${files[version].cache} (\\d+)$`, 'm').exec(stat)?.[1];
  return Math.max(0, usage - Number(cache ?? 0));
}
