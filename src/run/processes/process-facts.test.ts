import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { userInfo } from 'node:os';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { makeFakeTree } from '../../../test/fake-tree.js';
import {
  containerOf,
  openUserNames,
  parsePasswd,
  readProcessFacts,
  scriptIn,
} from './process-facts.js';

const id = '3f2a9c1b7d04aa55ee77bb66cc1122334455667788990011aabbccddeeff0011';

describe('the facts of a process', () => {
  it('are read of a real one: user, command line, script, run', async () => {
    const child = spawn('sleep', ['600', '0.5'], {
      env: { ...process.env, PLIMSOLL_RUN_ID: 'run-7' },
      stdio: 'ignore',
    });
    try {
      await once(child, 'spawn');
      const options = { procRoot: '/proc', userName: openUserNames() };
      const facts = readProcessFacts(child.pid ?? 0, options);
      expect(facts).toMatchObject({
        parent: process.pid,
        user: userInfo().username,
        commandLine: 'sleep 600 0.5',
        script: 'none',
        run: 'run-7',
      });
    } finally {
      child.kill('SIGKILL');
    }
  });

  it('are unknown where they may not be read, and none of a process that is gone', async () => {
    await using tree = await makeFakeTree({
      'proc/9/stat': `9 (x) S 1 ${'0 '.repeat(17)}99 0\n`,
      'proc/9/comm': 'kworker\n',
      'proc/9/cmdline': '',
    });
    const options = { procRoot: tree.roots.proc, userName: (uid: number) => `user ${uid}` };
    expect(readProcessFacts(9, options)).toMatchObject({
      started: 99,
      commandLine: '[kworker]',
      script: 'none',
      container: 'unknown',
      run: 'unknown',
    });
    expect(readProcessFacts(10, options)).toBeUndefined();
  });
});

describe('scriptIn', () => {
  it.each([
    [['/usr/bin/python3.11', '-u', 'train.py', '--lr', '1'], 'train.py'],
    [['python', '-W', 'ignore', '-m', 'torch.distributed.run'], 'torch.distributed.run'],
    [['python', '-c', 'pass'], 'none'],
    [['bash', 'run.sh'], 'run.sh'],
    [['nginx', 'x'], 'none'],
    [[], 'none'],
  ])('%j runs %s', (words, script) => {
    expect(scriptIn(words)).toBe(script);
  });
});

describe('containerOf', () => {
  it.each([
    [`0::/system.slice/docker-${id}.scope`, 'docker 3f2a9c1b7d04'],
    [`4:memory:/docker/${id}`, 'docker 3f2a9c1b7d04'],
    [`0::/machine.slice/libpod-${id}.scope/container`, 'podman 3f2a9c1b7d04'],
    [
      `0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-${id}.scope`,
      'containerd 3f2a9c1b7d04',
    ],
    [`1:cpu:/kubepods/burstable/pod12/${id}`, 'kubernetes 3f2a9c1b7d04'],
    ['0::/lxc.payload.web/init.scope', 'lxc web'],
    ['0::/system.slice/slurmstepd.scope/job_77/step_0', 'slurm 77'],
    ['0::/user.slice/user-1000.slice', 'none'],
    ['', 'unknown'],
  ])('%s is %s', (cgroups, container) => {
    expect(containerOf(cgroups)).toBe(container);
  });

  it('takes any text', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(containerOf(text)).toMatch(/^(unknown|none|[\w-]+ [\w.-]+)$/);
      }),
    );
  });
});

describe('names of users', () => {
  it('come from lines of the form of /etc/passwd, and bad lines are passed over', () => {
    const names = parsePasswd(
      'root:x:0:0::/:/bin/sh\nbad\nada:x:1000:1000::/home:/bin/sh\n:x:5:\n',
    );
    expect([...names]).toEqual([
      [0, 'root'],
      [1000, 'ada'],
    ]);
  });

  it('are numbers where no one has that account', () => {
    expect(openUserNames('/nowhere')(4_000_000_000)).toBe('4000000000');
  });
});
