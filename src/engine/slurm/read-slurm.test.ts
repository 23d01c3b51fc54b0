import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { root } from '../../../test/support/project-files.js';
import { Failure } from '../../failure.js';
import { MiB } from '../../units/bytes.js';
import { clusterStates } from '../cluster.js';
import { numberIn, slurmCommands, slurmDocument, wordsIn } from './commands.js';
import { clusterState, readJobs, reasonWords } from './job-states.js';
import { parseGres, readNodes } from './nodes.js';
import {
  closedWhy,
  optionsOf,
  readCluster,
  readPartitions,
  requestIn,
  type SlurmTarget,
  targetOf,
} from './open-cluster.js';

const document = (name: string) =>
  slurmDocument(readFileSync(join(root, 'test/fixtures/slurm', `${name}.json`), 'utf8'), name);

describe('what sinfo prints', () => {
  it.each(['22.05', '24.11'])('in the form of %s', (version) => {
    const nodes = readNodes(document(`sinfo-${version}`));
    const byName = (name: string) => nodes.find(({ names }) => names.includes(name));
    expect(byName('n1')).toMatchObject({
      shards: 160,
      gpus: [{ name: 'gpu', type: 'a100', count: 2 }],
      cpus: 8,
      memoryBytes: 16_000 * MiB,
      isUsable: true,
    });
    expect(byName('n1')?.partitions).toContain('gpu');
    expect(byName('n3')).toMatchObject({ features: ['big'], shards: 0 });
    expect(byName('n4')).toMatchObject({ gpus: [], partitions: ['cpu'] });
  });

  it('leaves out nodes that take no jobs, and joins the partitions of a group', () => {
    const nodes = readNodes(document('sinfo-24.11'));
    expect(nodes.find(({ names }) => names.includes('n5'))?.isUsable).toBe(false);
    expect(nodes.find(({ names }) => names.includes('n1'))?.partitions).toEqual(['gpu', 'all']);
  });
});

describe('what squeue prints', () => {
  it('in the form of 22.05', () => {
    const jobs = readJobs(document('squeue-22.05'));
    expect(jobs.find(({ id }) => id === '1')).toMatchObject({
      state: 'succeeded',
      arrayJob: 'none',
      nodes: 'n1',
      exitCode: 0,
    });
    expect(jobs.some(({ state, arrayJob }) => state === 'waiting' && arrayJob === '2')).toBe(true);
  });

  it('reads the exit code in the status that 22.05 writes', () => {
    const codes = [256, 0, 15, 139, 1792].map(
      (exit_code) =>
        readJobs({ jobs: [{ job_id: 1, job_state: 'FAILED', exit_code }] })[0]?.exitCode,
    );
    expect(codes).toEqual([1, 0, 143, 139, 7]);
  });

  it('in the form of 24.11', () => {
    const jobs = readJobs(document('squeue-24.11'));
    expect(jobs.map(({ state }) => state)).toEqual(['succeeded', 'waiting', 'running', 'failed']);
    expect(jobs[1]).toMatchObject({
      arrayJob: '2',
      arrayTask: 'unknown',
      slurmReason: 'Resources',
    });
    expect(jobs[2]).toMatchObject({ arrayTask: 0 });
    expect(jobs[3]?.exitCode).toBe(7);
  });

  it('has words for states and reasons', () => {
    expect(clusterState('CANCELLED by 0')).toBe('cancelled');
    expect(clusterState('NODE_FAIL')).toBe('failed');
    expect(clusterState('NEW_WORD')).toBe('unknown');
    expect(reasonWords('Resources')).toContain('free');
    expect(reasonWords('Something')).toBe('');
  });
});

describe('a controller that does not answer', () => {
  const codeOf = (error: unknown) => (error instanceof Failure ? error.code : error);

  it('is no empty list: squeue and sinfo of 22.05 end with 0 and write this', () => {
    const squeue = {
      errors: [{ description: 'Failed while looking for jobs', source: 'slurm_load_jobs' }],
      jobs: [],
    };
    const sinfo = { errors: [{ error: 'Unspecified error', errno: -1 }], nodes: [] };
    const read = (answer: object) => () => slurmDocument(JSON.stringify(answer), 'squeue');
    expect(read(squeue)).toThrow('did not answer squeue (Failed while looking for jobs).');
    expect(read(sinfo)).toThrow('(Unspecified error)');
    expect(read({ errors: [], jobs: [] })()).toEqual({ errors: [], jobs: [] });
  });

  it.each([
    [
      'slurm-silent',
      'sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)',
    ],
    ['slurm-silent', 'slurm_load_partitions error: Socket timed out on send/recv operation'],
    ['slurm-refused', 'sbatch: error: Invalid --time specification'],
  ])('%s: %s', async (code, line) => {
    const run = slurmCommands(process.env)('sh', ['-c', 'echo "$0" >&2; exit 1', line]);
    expect(await run.catch(codeOf)).toBe(code);
  });
});

describe('where a job may go', () => {
  // As `scontrol` of 22.05 prints them, without what does not decide it.
  const line = (name: string, rest = '') =>
    `PartitionName=${name} AllowGroups=ALL AllowAccounts=ALL AllowQos=ALL Default=NO RootOnly=NO ReqResv=NO State=UP ${rest}`;
  const [plain = new Map()] = readPartitions(line('p'));
  const anybody = { account: 'unknown', qos: 'unknown', hasReservation: false } as const;
  const why = (change: Record<string, string>, job: Partial<SlurmTarget> = {}, isRoot = false) =>
    closedWhy(new Map([...plain, ...Object.entries(change)]), { ...anybody, ...job }, isRoot);

  it('not to a partition that is down, or that does not take this job', () => {
    expect(why({})).toBeUndefined();
    for (const State of ['DOWN', 'DRAIN', 'INACTIVE']) expect(why({ State })).toContain(State);
    expect(why({ RootOnly: 'YES' })).toBe('for root alone');
    expect(why({ RootOnly: 'YES' }, {}, true)).toBeUndefined();
    expect(why({ DisableRootJobs: 'YES' }, {}, true)).toBe('not for root');
    expect(why({ ReqResv: 'YES' })).toBe('for jobs with a reservation');
    expect(why({ ReqResv: 'YES' }, { hasReservation: true })).toBeUndefined();
    expect(why({ AllowAccounts: 'lab,phd' }, { account: 'phd' })).toBeUndefined();
    expect(why({ AllowAccounts: 'lab,phd' }, { account: 'other' })).toBe('for accounts lab,phd');
    // Slurm lets a job without an account wait there for ever.
    expect(why({ AllowAccounts: 'lab' })).toBe('for accounts lab');
    expect(why({ DenyAccounts: 'lab' }, { account: 'lab' })).toBe('not for accounts lab');
    expect(why({ AllowQos: 'long' }, { qos: 'short' })).toBe('for QOS long');
    // Accounting gives the job a QOS that is not known here.
    expect(why({ AllowQos: 'long' })).toBeUndefined();
  });

  it.each([
    [['--partition=a,b'], ['a', 'b']],
    [['-pa', '--time=5', '--part=b'], ['b']],
    [['--parsable', '--time=5'], []],
  ])('%s', (options, partitions) => {
    expect(targetOf(options).partitions).toEqual(partitions);
  });

  it('takes variables of sbatch for options', () => {
    const options = optionsOf({ SBATCH_PARTITION: 'a', SBATCH_ACCOUNT: 'lab', SBATCH_QOS: '' });
    expect(targetOf([...options, '-Aphd', '--rese=r'])).toEqual({
      partitions: ['a'],
      account: 'phd',
      qos: 'unknown',
      hasReservation: true,
    });
  });

  describe('in a cluster of four nodes', () => {
    const sinfo = readFileSync(join(root, 'test/fixtures/slurm/sinfo-22.05.json'), 'utf8');
    /** n1 and n2 have A100, n3 has H100; all are in `gpu`, which is the default. */
    const cluster = (partitions: readonly string[], options: readonly string[] = []) => {
      const answers: Readonly<Record<string, string>> = {
        sinfo,
        scontrol: partitions.join('\n'),
        sacctmgr: 'lab\n',
      };
      return readCluster(async (command) => answers[command] ?? '', {}, [], options);
    };
    const need = { bytes: 30 * 1024 * MiB, gpus: 1 };
    const codeOf = async (
      partitions: readonly string[],
      options: readonly string[] = [],
    ): Promise<unknown> => {
      try {
        return requestIn(await cluster(partitions, options), need);
      } catch (error) {
        return error instanceof Failure ? error.message : error;
      }
    };

    it('the GPU is one of the partition that the job names', async () => {
      const both = [line('gpu', 'Default=YES'), line('cpu')];
      expect(await codeOf(both)).toMatchObject({ gres: 'shard:60', partition: 'default' });
      expect(await codeOf(both, ['-pgpu'])).toMatchObject({ partition: 'default' });
      expect(await codeOf(both, ['--partition=cpu'])).toContain('No node of partition cpu that');
    });

    it('a closed one is never named, and one that the job names anyway is noted', async () => {
      const down = [line('gpu', 'State=DOWN Default=YES'), line('cpu')];
      expect(await codeOf(down)).toContain('Closed to this job: gpu (its state is DOWN).');
      expect(await codeOf(down, ['-pgpu'])).toMatchObject({
        notes: expect.arrayContaining(['Partition gpu is closed to this job: its state is DOWN.']),
      });
      // One that scontrol does not show is for other groups.
      expect(await codeOf([line('cpu')])).toContain('No node of this cluster that takes this job');
    });

    it('asks accounting for the account where the job names none', async () => {
      expect(await codeOf([line('gpu', 'AllowAccounts=lab')])).toMatchObject({ partition: 'gpu' });
      expect(await codeOf([line('gpu', 'AllowAccounts=lab')], ['-Aphd'])).toContain(
        'gpu (for accounts lab)',
      );
    });
  });
});

describe('small parts', () => {
  it.each([
    ['gpu:a100:2(S:0-1),shard:160', ['gpu a100 2', 'shard  160']],
    ['gpu:8', ['gpu  8']],
    ['gpu', ['gpu  1']],
    ['gres/gpu:1g.10gb:7', ['gpu 1g.10gb 7']],
    ['shard:2K', ['shard  2048']],
    ['(null)', []],
    ['', []],
  ])('%s', (text, expected) => {
    expect(parseGres(text).map(({ name, type, count }) => `${name} ${type} ${count}`)).toEqual(
      expected,
    );
  });

  it('numbers of both forms', () => {
    expect(numberIn(5)).toBe(5);
    expect(numberIn(null)).toBe('unknown');
    expect(numberIn({ set: true, infinite: false, number: 5 })).toBe(5);
    expect(numberIn({ set: false, infinite: false, number: 5 })).toBe('unknown');
    expect(numberIn({ set: true, infinite: true, number: 5 })).toBe('unknown');
    expect(wordsIn('a, b,')).toEqual(['a', 'b']);
    expect(wordsIn(['a', 'b'])).toEqual(['a', 'b']);
  });

  it('answers or fails in words, whatever a command printed', () => {
    const value = fc.letrec((tie) => ({
      any: fc.oneof(fc.jsonValue(), fc.dictionary(fc.string(), tie('any'))),
    })).any;
    const rows = fc.record({ nodes: value, sinfo: value, jobs: value }, { requiredKeys: [] });
    fc.assert(
      fc.property(
        fc.oneof(
          rows.map((one) => JSON.stringify(one)),
          fc.string(),
        ),
        (text) => {
          try {
            const read = slurmDocument(text, 'sinfo');
            for (const { cpus } of readNodes(read)) expect(typeof cpus).toMatch(/number|string/);
            for (const { state } of readJobs(read)) expect(clusterStates).toContain(state);
          } catch (error) {
            expect(error).toBeInstanceOf(Failure);
          }
        },
      ),
    );
  });
});
