import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../units/bytes.js';
import type { FleetTraining } from './document.js';
import { fleetOf } from './fleet.js';
import { answersOf, type MadeMetric } from './made-fleet-for-tests.js';
import { findTrainings } from './trainings.js';

interface MadeRank {
  readonly rank: number;
  readonly used: number;
  readonly eta?: number;
  readonly leak?: number;
}

/** A node with one GPU of 80 GiB for each of these ranks. */
function node(ranks: readonly MadeRank[], job: string, worldSize: string): readonly MadeMetric[] {
  return ranks.flatMap(({ rank, used, eta, leak }, gpu) => {
    const device = `gpu:${gpu}`;
    const of = { device, name: 'H100', provenance: 'measured' };
    const process = { device, pid: String(100 + rank), process: 'python', user: 'ada' };
    const ofRank = { ...process, engine: 'slurm', job_id: job, rank: String(rank) };
    const ofJob = { engine: 'slurm', job_id: job, name: `name of ${job}`, device };
    const host = { ...ofRank, device: 'host', world_size: worldSize };
    return [
      { name: 'plimsoll_device_total_bytes', labels: of, value: 80 * GiB },
      { name: 'plimsoll_device_used_bytes', labels: of, value: used + GiB },
      { name: 'plimsoll_device_risk', labels: of, value: eta === undefined ? 0 : 3 },
      ...(eta === undefined
        ? []
        : [{ name: 'plimsoll_device_out_of_memory_seconds', labels: of, value: eta }]),
      ...(leak === undefined
        ? []
        : [{ name: 'plimsoll_process_leak_bytes_per_second', labels: ofRank, value: leak }]),
      {
        name: 'plimsoll_process_used_bytes',
        labels: { ...ofRank, world_size: worldSize },
        value: used,
      },
      { name: 'plimsoll_process_used_bytes', labels: host, value: GiB },
      { name: 'plimsoll_job_used_bytes', labels: ofJob, value: used },
    ];
  });
}

function trainings(
  targets: Readonly<Record<string, readonly MadeMetric[]>>,
): readonly FleetTraining[] {
  const history = { epochMs: [], totalBytes: [], usedBytes: [], reservedBytes: [] };
  const answers = answersOf(new Map(Object.entries(targets)));
  return fleetOf({ epochMs: 0, windowSeconds: 3600, answers, history }).trainings;
}

const calm = (rank: number): MadeRank => ({ rank, used: 40 * GiB });

describe('a distributed training', () => {
  it('is one picture of its ranks on all nodes', () => {
    const [one] = trainings({
      'n1:1': node([calm(0), calm(1)], '7', '4'),
      'n2:1': node([{ rank: 2, used: 50 * GiB }, calm(3)], '7', '4'),
    });
    expect(one).toMatchObject({
      engine: 'slurm',
      id: '7',
      name: 'name of 7',
      worldSize: 4,
      tightest: 2,
      spreadBytes: 10 * GiB,
      leaking: [],
      missing: 0,
      warnings: [],
    });
    expect(one?.ranks.map(({ rank, node: on, device }) => `${rank} ${on}/${device}`)).toEqual([
      '0 n1/gpu:0',
      '1 n1/gpu:1',
      '2 n2/gpu:0',
      '3 n2/gpu:1',
    ]);
    expect(one?.ranks[2]?.freeBytes).toBe(29 * GiB);
  });

  it('warns of the rank that is full first, of one that leaks, and of those that are not seen', () => {
    const [one] = trainings({
      'n1:1': node([calm(0), { rank: 1, used: 70 * GiB, eta: 55 }], '7', '16'),
      'n2:1': node(
        [
          { rank: 2, used: 78 * GiB, eta: 12 },
          { rank: 3, used: 41 * GiB, leak: MiB },
        ],
        '7',
        '16',
      ),
    });
    expect(one?.warnings).toEqual([
      'Rank 2 (n2/gpu:0) is expected to run out of memory in 12 s; the other 15 ranks will wait for it.',
      'Rank 3 (n2/gpu:1) leaks 60.0 MiB a minute.',
      '12 of 16 ranks are not seen: they ended, or their nodes do not answer.',
    ]);
    expect(one?.leaking).toEqual([3]);
  });

  it('is found by its id or its name; two may have one name', () => {
    const all = trainings({
      'n1:1': node([calm(0)], '7', '1'),
      'n2:1': node([calm(0)], '8', '1'),
    });
    expect(findTrainings(all, '8').map(({ id }) => id)).toEqual(['8']);
    expect(findTrainings(all, 'name of 7').map(({ id }) => id)).toEqual(['7']);
    expect(findTrainings(all, '9')).toEqual([]);
  });

  it('of which nothing more is known is shown as it is', () => {
    const labels = { device: 'gpu:0', engine: 'slurm', job_id: '7', rank: '3' };
    const odd = { ...labels, rank: 'three' };
    const [one] = trainings({
      'n1:1': [
        { name: 'plimsoll_process_used_bytes', labels, value: 5 },
        { name: 'plimsoll_process_used_bytes', labels: odd, value: 5 },
      ],
    });
    expect(one).toMatchObject({ worldSize: 'unknown', tightest: 'unknown', missing: 'unknown' });
    expect(one?.ranks).toHaveLength(1);
  });
});
