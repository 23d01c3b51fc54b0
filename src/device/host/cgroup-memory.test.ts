import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findMemoryCgroup } from './cgroup-memory.js';

const v2Mount = '30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n';
const v1Mounts = [
  '31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755',
  '32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct',
  '35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory',
  '41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw',
].join('\n');

describe('findMemoryCgroup', () => {
  it('walks up from a version 2 cgroup', () => {
    expect(findMemoryCgroup('0::/user.slice/job.scope\n', v2Mount)).toEqual({
      version: 2,
      folders: [
        '/sys/fs/cgroup/user.slice/job.scope',
        '/sys/fs/cgroup/user.slice',
        '/sys/fs/cgroup',
      ],
    });
  });

  it('prefers version 1 where it has the memory controller', () => {
    const cgroups = '9:name=systemd:/\n4:memory:/batch/7\n1:cpu,cpuacct:/\n0::/\n';
    expect(findMemoryCgroup(cgroups, v1Mounts)).toEqual({
      version: 1,
      folders: [
        '/sys/fs/cgroup/memory/batch/7',
        '/sys/fs/cgroup/memory/batch',
        '/sys/fs/cgroup/memory',
      ],
    });
  });

  it('takes the mount point in a container that sees only its own part', () => {
    const mount = '900 880 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n';
    expect(findMemoryCgroup('4:memory:/docker/abc\n', mount)?.folders).toEqual([
      '/sys/fs/cgroup/memory',
    ]);
    expect(findMemoryCgroup('4:memory:/docker/abc/child\n', mount)?.folders).toEqual([
      '/sys/fs/cgroup/memory/child',
      '/sys/fs/cgroup/memory',
    ]);
    expect(findMemoryCgroup('4:memory:/docker/abcdef\n', mount)?.folders).toEqual([
      '/sys/fs/cgroup/memory',
    ]);
  });

  it('takes the mount point where the path leads out of the namespace', () => {
    expect(findMemoryCgroup('0::/../other\n', v2Mount)?.folders).toEqual(['/sys/fs/cgroup']);
  });

  it('reads blanks in a mount point', () => {
    const mount = '30 23 0:26 / /mnt/c\\040group rw - cgroup2 cgroup2 rw\n';
    expect(findMemoryCgroup('0::/\n', mount)?.folders).toEqual(['/mnt/c group']);
  });

  it('finds nothing where no memory cgroup is mounted', () => {
    expect(findMemoryCgroup('0::/\n', '')).toBeUndefined();
    expect(findMemoryCgroup('', v2Mount)).toBeUndefined();
  });

  it('never leaves the mount point and always ends, whatever the path', () => {
    const segment = fc.oneof(fc.string({ maxLength: 8 }), fc.constantFrom('..', '.', 'a', ''));
    fc.assert(
      fc.property(fc.array(segment, { maxLength: 8 }), (segments) => {
        const place = findMemoryCgroup(`0::/${segments.join('/')}\n`, v2Mount);
        const outside = place?.folders.filter(
          (folder) => folder !== '/sys/fs/cgroup' && !folder.startsWith('/sys/fs/cgroup/'),
        );
        expect(outside ?? []).toEqual([]);
      }),
    );
  });
});
