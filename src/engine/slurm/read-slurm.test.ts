import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { root } from '../../../test/support/project-files.js';
import { Failure } from '../../failure.js';
import { MiB } from '../../units/bytes.js';
import { clusterStates } from '../cluster.js';
import { clusterState, readJobs, reasonWords } from './job-states.js';
import { parseGres, readNodes } from './nodes.js';
import { numberIn, slurmDocument, wordsIn } from './values.js';

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
