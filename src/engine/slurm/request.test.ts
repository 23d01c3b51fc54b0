import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../../units/bytes.js';
import { gpuOffers, type SlurmNodes, type SlurmSettings } from './nodes.js';
import { environmentOfSuccessor } from './on-node.js';
import { arrayTasks, hostShare, leastHostShare, slurmRequest, withoutArray } from './request.js';
import { batchScript } from './submit-attempt.js';

function nodes(gres: string, count: number, change: Partial<SlurmNodes> = {}): SlurmNodes {
  return {
    names: ['n1'],
    partitions: ['gpu'],
    features: [],
    cpus: 8,
    memoryBytes: 64 * GiB,
    gpus: [{ name: 'gpu', type: gres, count }],
    shards: 0,
    isUsable: true,
    ...change,
  };
}
const asked = (
  all: readonly SlurmNodes[],
  bytes: number | 'unknown',
  gpus = 1,
  settings: SlurmSettings = {},
) => slurmRequest({ bytes, gpus }, gpuOffers(all, settings, []), ['gpu']);
const codeOf = (work: () => unknown) => {
  try {
    return work();
  } catch (error) {
    return error instanceof Error && 'code' in error ? error.code : error;
  }
};

describe('what Slurm is asked for', () => {
  it('shards where there are shards: as many as the memory needs', () => {
    const shared = [nodes('a100-80gb', 2, { shards: 160 })];
    expect(asked(shared, 30 * GiB)).toMatchObject({ gres: 'shard:30', limitBytes: 30 * GiB });
    expect(asked(shared, 1)).toMatchObject({ gres: 'shard:1' });
    expect(asked(shared, 30 * GiB, 1, { shardBytes: 2 * GiB }).gres).toBe('shard:15');
  });

  it('names the type where shards of different sizes are about', () => {
    const mixed = [
      nodes('a100-80gb', 2, { shards: 160 }),
      nodes('h200', 2, { shards: 100, names: ['n2'] }),
    ];
    expect(asked(mixed, 30 * GiB).gres).toBe('shard:a100-80gb:30');
    expect(asked(mixed, 100 * GiB).gres).toMatch(/^shard:h200:\d+$/);
  });

  it('whole GPUs of the smallest type that is enough', () => {
    const mixed = [nodes('h200', 4), nodes('a100-80gb', 8), nodes('t4', 1)];
    expect(asked(mixed, 10 * GiB).gres).toBe('gpu:t4:1');
    expect(asked(mixed, 30 * GiB)).toMatchObject({ gres: 'gpu:a100-80gb:1', limitBytes: 'none' });
    expect(asked(mixed, 100 * GiB).gres).toBe('gpu:h200:1');
    expect(asked(mixed, 10 * GiB, 8).gres).toBe('gpu:a100-80gb:8');
  });

  it('several GPUs are never taken as shards', () => {
    expect(asked([nodes('h200', 4, { shards: 560 })], 30 * GiB, 2).gres).toBe('gpu:h200:2');
  });

  it('any GPU where nothing is known of the job, or of the cards', () => {
    expect(asked([nodes('h200', 4)], 'unknown')).toMatchObject({ gres: 'gpu:1' });
    const odd = asked([nodes('', 4)], 30 * GiB);
    expect(odd.gres).toBe('gpu:1');
    expect(odd.notes.join()).toContain('"gpuBytes": { "gpu": BYTES }');
    expect(asked([nodes('', 4)], 30 * GiB, 1, { gpuBytes: { gpu: 40 * GiB } }).notes).toEqual([]);
  });

  it('a name that means several cards is the smallest, and said; features decide', () => {
    const plain = asked([nodes('a100', 4)], 30 * GiB);
    expect(plain.notes.join()).toContain('40.0 GiB is assumed');
    expect(codeOf(() => asked([nodes('a100', 4)], 60 * GiB))).toBe('does-not-fit');
    const featured = [nodes('a100', 4, { features: ['ib', 'a100-80gb'] })];
    expect(asked(featured, 60 * GiB)).toMatchObject({ gres: 'gpu:a100:1', notes: [] });
  });

  it('a feature of nodes where the type of a GPU does not tell its memory', () => {
    const small = nodes('', 4, { features: ['ib', 't4'], names: ['n1'] });
    const large = nodes('', 4, { features: ['a100-80gb', 'ib'], names: ['n2'] });
    expect(asked([small, large], 60 * GiB)).toMatchObject({
      gres: 'gpu:1',
      constraint: 'a100-80gb',
      why: expect.stringContaining('one whole GPU (feature a100-80gb), 80.0 GiB each, with'),
    });
    // Any of them is enough.
    expect(asked([small, large], GiB).constraint).toBeUndefined();
    expect(asked([large], 60 * GiB).constraint).toBeUndefined();
    const other = nodes('', 4, { features: ['gpu24'], names: ['n3'] });
    const settings = { gpuBytes: { gpu24: 24 * GiB } };
    expect(asked([small, other, large], 20 * GiB, 1, settings).constraint).toBe('gpu24');
  });

  it('the same for one name of cards of different sizes, and for shards', () => {
    const small = nodes('a100', 4, { features: ['a100-40gb'], shards: 160 });
    const large = nodes('a100', 4, { features: ['a100-80gb'], names: ['n2'], shards: 160 });
    expect(asked([small, large], 60 * GiB, 2)).toMatchObject({
      gres: 'gpu:a100:2',
      constraint: 'a100-80gb',
    });
    expect(asked([small, large], 60 * GiB)).toMatchObject({
      gres: 'shard:a100:30',
      constraint: 'a100-80gb',
    });
    expect(asked([small, nodes('h200', 4)], 30 * GiB, 2).constraint).toBeUndefined();
  });

  it('a partition only where jobs do not come there by themselves', () => {
    expect(asked([nodes('h200', 4)], GiB).partition).toBe('default');
    expect(asked([nodes('h200', 4, { partitions: ['big', 'long'] })], GiB).partition).toBe(
      'big,long',
    );
  });

  it('the host: memory, with room for our own process', () => {
    expect(slurmRequest({ bytes: GiB, gpus: 0 }, [], [])).toMatchObject({
      gres: 'none',
      memoryMebibytes: 1024 + 256,
      limitBytes: GiB,
    });
  });

  it('nothing where no node has it', () => {
    expect(codeOf(() => asked([], GiB))).toBe('no-such-gpu');
    expect(codeOf(() => asked([nodes('h200', 4, { isUsable: false })], GiB))).toBe('no-such-gpu');
    expect(codeOf(() => asked([nodes('h200', 4)], GiB, 8))).toBe('no-such-gpu');
    expect(codeOf(() => asked([nodes('h200', 4)], 1000 * GiB))).toBe('does-not-fit');
  });
});

describe('the script', () => {
  it('has no word that a shell would act on', () => {
    const text = batchScript({
      name: 'a "b" $(c)\nd',
      folder: "/srv/it's/x y",
      attempt: 2,
      cwd: '/w',
      request: { ...asked([nodes('h200', 1)], GiB), constraint: 'a b', why: 'one\n$(rm)' },
      comment: 'plimsoll:k:all.2',
      plimsoll: ['/usr/bin/node', '/a b/plimsoll.js'],
      options: ['--time=1:00:00', '--mail-user=a b'],
    });
    expect(text).toContain(String.raw`#SBATCH "--job-name=a \"b\" $(c) d"`);
    expect(text).toContain(`/usr/bin/node '/a b/plimsoll.js' on-node '/srv/it'\\''s/x y' 2`);
    expect(text).toContain('#SBATCH --time=1:00:00\n#SBATCH "--mail-user=a b"');
    expect(text.split('\n').filter((line) => line.startsWith('#SBATCH')).length).toBe(12);
    expect(text).toContain('#SBATCH "--constraint=a b"\n');
    expect(text).toContain('# one $(rm)\n');
  });
});

describe('host memory and processors of a job with GPUs', () => {
  const optionsOf = (options: readonly string[]) =>
    batchScript({
      name: 'a',
      folder: '/f',
      attempt: 1,
      cwd: '/w',
      request: asked([nodes('a100-80gb', 2, { shards: 160, cpus: 64 })], 30 * GiB),
      comment: 'c',
      plimsoll: ['plimsoll'],
      options,
    })
      .split('\n')
      .filter((line) => /^#SBATCH (--(mem|cpus|ntasks|exclusive)|-c)/.test(line))
      .map((line) => line.slice('#SBATCH '.length));

  it('are asked for, as much of the node as of its GPUs', () => {
    expect(optionsOf([])).toEqual(['--mem=11059M', '--cpus-per-task=10']);
    expect(asked([nodes('h200', 4)], 30 * GiB).why).toContain('with 14.4 GiB of host memory');
  });

  it.each([
    [['--mem-per-gpu=20G'], ['--cpus-per-task=10', '--mem-per-gpu=20G']],
    [['--mem=1G'], ['--cpus-per-task=10', '--mem=1G']],
    [['-c4'], ['--mem=11059M', '-c4']],
    [['--cpus-per-gpu=4'], ['--mem=11059M', '--cpus-per-gpu=4']],
    [['--ntasks=2'], ['--mem=11059M', '--ntasks=2']],
    [['--exclusive'], ['--exclusive']],
  ])('are left to the person who says %s', (options, expected) => {
    expect(optionsOf(options)).toEqual(expected);
  });
});

describe('arrays', () => {
  it.each([
    [['--array=0-3'], [0, 1, 2, 3]],
    [
      ['--array', '1,5-9:2%2'],
      [1, 5, 7, 9],
    ],
    [['-a7'], [7]],
    [['--time=5'], undefined],
  ])('%s', (options, tasks) => {
    expect(arrayTasks(options)).toEqual(tasks);
    expect(withoutArray(['--x', ...options, '--y']).includes('--x')).toBe(true);
    expect(arrayTasks(withoutArray(options))).toBeUndefined();
  });

  it.each(['x', '3-1', '1-5:0', '0-9999999', ''])('"%s" is refused', (spec) => {
    expect(codeOf(() => arrayTasks([`--array=${spec}`]))).toBe('bad-option');
  });
});

it('a successor gets the environment without what Slurm gave this job', () => {
  const environment = {
    PATH: '/bin',
    SLURM_JOB_ID: '1',
    SLURM_CONF: '/c',
    CUDA_VISIBLE_DEVICES: '1',
  };
  expect(environmentOfSuccessor(environment)).toEqual({ PATH: '/bin', SLURM_CONF: '/c' });
});

const node = { cpus: 128, memoryBytes: 2048 * GiB };
const job = { share: 1 / 8, gpus: 1, needBytes: 40 * GiB };

describe('what a job with GPUs asks of its host', () => {
  it('is as much of the node as of its GPUs, less what sites keep', () => {
    expect(hostShare(node, job)).toEqual({ memoryMebibytes: 230 * 1024 + 410 - 1, cpus: 14 });
    expect(hostShare(node, { ...job, share: 1, gpus: 8 })).toEqual({
      memoryMebibytes: Math.floor((0.9 * 2048 * GiB) / MiB),
      cpus: 115,
    });
  });

  it('is never less than the job needs by the rule, and never more than the node has', () => {
    const poor = { cpus: 128, memoryBytes: 64 * GiB };
    expect(hostShare(poor, job).memoryMebibytes).toBe((3 + 40 / 4) * 1024);
    const large = { share: 1 / 8, gpus: 1, needBytes: 640 * GiB };
    expect(hostShare(poor, large).memoryMebibytes).toBe(Math.floor(0.9 * 64 * 1024));
    expect(hostShare(poor, { ...job, needBytes: 'unknown' }).memoryMebibytes).toBe(7372);
  });

  it('is left to the site where it does not state what its nodes have', () => {
    expect(hostShare({ cpus: 1, memoryBytes: MiB }, job)).toEqual({
      memoryMebibytes: 'default',
      cpus: 'default',
    });
    expect(hostShare({ cpus: 'unknown', memoryBytes: 'unknown' }, job)).toEqual({
      memoryMebibytes: 'default',
      cpus: 'default',
    });
  });

  it('of nodes that differ is the least, so that each could take the job', () => {
    const small = hostShare({ cpus: 32, memoryBytes: 256 * GiB }, job);
    expect(leastHostShare([hostShare(node, job), small])).toEqual(small);
    const unstated = hostShare({ cpus: 32, memoryBytes: 'unknown' }, job);
    expect(leastHostShare([small, unstated])).toEqual({ memoryMebibytes: 'default', cpus: 3 });
    expect(leastHostShare([])).toEqual({ memoryMebibytes: 'default', cpus: 'default' });
  });
});
