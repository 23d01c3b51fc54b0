import type { Known } from '../../units/known.js';

/** An engine of containers, and how the cgroup of one of its containers is called. */
const shapes: readonly (readonly [engine: string, pattern: RegExp])[] = [
  ['docker', /(?:\/docker[/-]|docker-)([0-9a-f]{12,64})(?:\.scope)?(?:\/|$)/],
  ['podman', /libpod-([0-9a-f]{12,64})(?:\.scope)?(?:\/|$)/],
  ['containerd', /cri-containerd-([0-9a-f]{12,64})(?:\.scope)?(?:\/|$)/],
  ['cri-o', /crio-([0-9a-f]{12,64})(?:\.scope)?(?:\/|$)/],
  ['kubernetes', /\/kubepods[^\n]*\/(?:[\w.-]*-)?([0-9a-f]{32,64})(?:\.scope)?(?:\/|$)/],
  ['lxc', /\/lxc(?:\.payload)?[/.]([\w.-]{1,64})(?:\/|$)/],
  ['slurm', /\/slurm[^\n]*\/job_(\d{1,12})(?:\/|$)/],
];

/** As short as the engines themselves show them. */
const shownId = 12;

/**
 * The container that a process runs in, by the names of its cgroups: `docker 3f2a9c1b7d04`, or `none`.
 * A process inside sees its own cgroup as the root of all, so `unknown` stands for no cgroup at all.
 *
 * @example
 * containerOf('0::/system.slice/docker-3f2a9c1b7d04aa.scope\n'); // 'docker 3f2a9c1b7d04'
 */
export function containerOf(cgroups: string | undefined): Known<string> {
  if (cgroups === undefined || cgroups === '') return 'unknown';
  for (const line of cgroups.split('\n')) {
    for (const [engine, pattern] of shapes) {
      const id = pattern.exec(line)?.[1];
      if (id !== undefined) return `${engine} ${id.slice(0, shownId)}`;
    }
  }
  return 'none';
}
