import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeFakeTree } from '../../../test/fake-tree.js';
import { GiB } from '../../units/bytes.js';
import { enforceLimit } from '../open-attempt.js';
import {
  cgroupPids,
  killedByKernel,
  killedIn,
  makeLimitCgroup,
  readCgroup,
  readOwnKills,
  removeCgroup,
} from './cgroup.js';

/** A machine with cgroup version 2, whose kernel fills new folders as the real one does. */
async function versionTwo(enabled: (folder: string) => boolean) {
  const tree = await makeFakeTree();
  const mount = join(tree.folder, 'cgroup');
  await tree.write({
    'proc/self/cgroup': '0::/user/shell\n',
    'proc/self/mountinfo': `30 23 0:26 / ${mount} rw - cgroup2 cgroup2 rw\n`,
    'cgroup/user/shell/cgroup.procs': '1\n',
  });
  const makeFolder = (path: string) => {
    mkdirSync(path);
    if (!enabled(path)) return;
    for (const [name, text] of Object.entries({
      'memory.max': 'max\n',
      'memory.swap.max': 'max\n',
      'memory.events': 'low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\n',
      'memory.stat': 'anon 1000\nfile 5000\nshmem 24\n',
      'cgroup.procs': '12\n34\n',
    })) {
      writeFileSync(join(path, name), text);
    }
  };
  return { tree, mount, makeFolder };
}

describe('a cgroup of version 2', () => {
  it('that a killed supervisor left before it was used is used', async () => {
    const { tree, makeFolder } = await versionTwo(() => true);
    const asked = { procRoot: tree.roots.proc, name: 'left-1', limitBytes: GiB, makeFolder };
    const left = makeLimitCgroup(asked);
    if (!('folder' in left)) throw new Error(left.why);
    // One with processes is another's.
    expect(makeLimitCgroup(asked)).not.toEqual(left);
    writeFileSync(left.procs, '');
    expect(makeLimitCgroup(asked)).toEqual(left);
  });

  it('is made below ours where the controller is on there', async () => {
    const { tree, mount, makeFolder } = await versionTwo(() => true);
    const made = makeLimitCgroup({
      procRoot: tree.roots.proc,
      name: 'a-1',
      limitBytes: GiB,
      makeFolder,
    });
    const folder = join(mount, 'user/shell/plimsoll-run-a-1');
    expect(made).toEqual({ version: 2, folder, procs: join(folder, 'cgroup.procs') });
    expect(readFileSync(join(folder, 'memory.max'), 'utf8')).toBe(String(GiB));
    expect(readFileSync(join(folder, 'memory.swap.max'), 'utf8')).toBe('0');
    expect(readCgroup({ version: 2, folder })).toEqual({ heldBytes: 1024, kills: 1 });
    expect(cgroupPids(folder)).toEqual([12, 34]);
    await tree[Symbol.asyncDispose]();
  });

  it('is made beside ours where ours holds processes, and none is left where it could not be', async () => {
    const { tree, mount, makeFolder } = await versionTwo((path) => !path.includes('shell'));
    const made = makeLimitCgroup({
      procRoot: tree.roots.proc,
      name: 'b-1',
      limitBytes: GiB,
      makeFolder,
    });
    expect(made).toMatchObject({ folder: join(mount, 'user/plimsoll-run-b-1') });
    expect(existsSync(join(mount, 'user/shell/plimsoll-run-b-1'))).toBe(false);
    await tree[Symbol.asyncDispose]();
  });

  it('says why there is none', async () => {
    const { tree, makeFolder } = await versionTwo(() => false);
    expect(
      makeLimitCgroup({ procRoot: tree.roots.proc, name: 'c-1', limitBytes: GiB, makeFolder }),
    ).toMatchObject({
      why: expect.stringContaining('controller is not on'),
    });
    await tree[Symbol.asyncDispose]();
    await using empty = await makeFakeTree();
    expect(makeLimitCgroup({ procRoot: empty.roots.proc, name: 'x', limitBytes: 1 })).toEqual({
      why: 'no memory cgroup is mounted',
    });
  });
});

describe('enforceLimit', () => {
  const base = { memoryBytes: GiB, name: 'x', procRoot: '/nowhere', platform: 'linux' } as const;

  it('leaves a GPU to the SDK, and sets nothing where nothing was asked', () => {
    expect(enforceLimit({ ...base, device: 'gpu:0' }).enforced).toMatchObject({
      by: 'sdk',
      bytes: GiB,
    });
    expect(enforceLimit({ ...base, memoryBytes: undefined, device: 'host' }).enforced.by).toBe(
      'none',
    );
  });

  it('falls back to the address space, and says why', () => {
    const setup = enforceLimit({ ...base, device: 'host', make: () => ({ why: 'not permitted' }) });
    expect(setup.addressSpaceBytes).toBe(GiB);
    expect(setup.enforced).toMatchObject({
      by: 'address-space',
      why: expect.stringContaining('not permitted'),
    });
  });
});

describe('the kernel log', () => {
  it('names who was killed, in the words of old and new kernels', () => {
    expect(
      killedIn(
        '6,1,2,-;Out of memory: Killed process 12 (python) total-vm:1kB\n3,1,1,-;Memory cgroup out of memory: Killed process 34 (node) \nOut of memory: Kill process 56 (x) score 9\nOut of memory (oom_kill_allocating_task): Killed process 78 (y)',
      ),
    ).toEqual([12, 34, 56, 78]);
    expect(killedIn('Killed process 5 by hand')).toEqual([]);
    fc.assert(fc.property(fc.string(), (text) => void killedIn(text)));
  });

  it('is unknown where it may not be read', () => {
    expect(killedByKernel('/nowhere/kmsg')).toBe('unknown');
  });

  it('has a count beside it', async () => {
    await using tree = await makeFakeTree({ 'proc/vmstat': 'nr_free 1\noom_kill 4\n' });
    expect(readOwnKills(tree.roots.proc)).toBe(4);
    expect(readOwnKills('/nowhere')).toBe('unknown');
    expect(removeCgroup('/nowhere/at/all')).toBe(true);
  });
});
