import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { GiB } from '../units/bytes.js';
import { askFleet } from './ask-fleet.js';
import type { FleetHistory } from './document.js';
import { fleetOf } from './fleet.js';
import { historyQueryNames, instantQueries, instantQueryNames } from './fleet-devices.js';
import { answersOf, type MadeMetric, madeAnswers, madeNode } from './made-fleet-for-tests.js';

const history: FleetHistory = { epochMs: [], totalBytes: [], usedBytes: [], reservedBytes: [] };

function fleetFrom(answers: ReturnType<typeof answersOf>) {
  return fleetOf({ epochMs: 0, windowSeconds: 3600, answers, history });
}

function device(id: string, figures: Readonly<Record<string, number>>): readonly MadeMetric[] {
  const labels = { device: id, name: 'a GPU', provenance: 'measured' };
  return Object.entries(figures).map(([figure, value]) => ({
    name: `plimsoll_device_${figure}`,
    labels,
    value,
  }));
}

describe('the fleet', () => {
  it('has the figures that the nodes gave, and their sums', () => {
    const fleet = fleetFrom(madeAnswers(100, 8));
    const given = Array.from({ length: 100 }, (_, node) => madeNode(node, 8)).flat();
    const sum = (name: string) =>
      given
        .filter((one) => one.name === `plimsoll_${name}`)
        .reduce((all, { value }) => all + value, 0);
    expect(fleet.totals).toMatchObject({
      nodes: 100,
      silentNodes: 0,
      of: 'gpu',
      devices: 800,
      simulated: 800,
      totalBytes: sum('device_total_bytes'),
      usedBytes: sum('device_used_bytes'),
      reservedBytes: sum('job_reserved_bytes'),
      atRisk: 2,
      leaking: 3,
    });
    const n7 = fleet.nodes.find(({ name }) => name === 'n0007');
    expect(n7?.devices).toHaveLength(8);
    const used = madeNode(7, 8).filter(({ name }) => name === 'plimsoll_device_used_bytes');
    for (const { labels, value } of used) {
      expect(n7?.devices.find(({ id }) => id === labels['device'])?.usedBytes).toBe(value);
    }
  });

  it('begins with the greatest risk, then who is full sooner, then the silent', () => {
    const all = { total_bytes: 10 * GiB, used_bytes: 5 * GiB };
    const node = (figures: Readonly<Record<string, number>>) =>
      device('gpu:0', { ...all, ...figures });
    const targets = new Map([
      ['calm:1', node({ risk: 0 })],
      ['soon:1', node({ risk: 3, out_of_memory_seconds: 20 })],
      ['low:1', node({ risk: 1 })],
      ['later:1', node({ risk: 3, out_of_memory_seconds: 50 })],
      ['worst:1', node({ risk: 4, out_of_memory_seconds: 9 })],
      ['unread:1', node({})],
    ]);
    const now = answersOf(targets);
    const earlier = answersOf(new Map([...targets, ['silent:1', node({ risk: 0 })]]));
    const { nodes, totals } = fleetFrom({ ...now, earlierDevices: earlier.devices });
    expect(nodes.map(({ name }) => name)).toEqual([
      'worst',
      'soon',
      'later',
      'silent',
      'low',
      'unread',
      'calm',
    ]);
    expect(totals).toMatchObject({ nodes: 7, silentNodes: 1, atRisk: 3 });
    expect(nodes.find(({ name }) => name === 'unread')?.devices[0]).toMatchObject({
      risk: 'unknown',
      loadLineBytes: 'unknown',
      etaSeconds: null,
    });
  });

  it('counts GPUs, and hosts where there is no GPU; both are shown', () => {
    const host = device('host', { total_bytes: 100, used_bytes: 10 });
    const gpu = device('gpu:0', { total_bytes: 7, used_bytes: 3 });
    const hosts = fleetFrom(answersOf(new Map([['a:1', host]])));
    expect(hosts.totals).toMatchObject({ of: 'host', devices: 1, totalBytes: 100 });
    const both = fleetFrom(answersOf(new Map([['a:1', [...host, ...gpu]]])));
    expect(both.totals).toMatchObject({ of: 'gpu', devices: 1, totalBytes: 7, usedBytes: 3 });
    expect(both.nodes[0]?.devices).toHaveLength(2);
  });

  it('lists what is reserved and unused, by device and by job', () => {
    const on = (device_: string, jobId: string, figures: Readonly<Record<string, number>>) =>
      Object.entries(figures).map(([figure, value]) => ({
        name: `plimsoll_job_${figure}`,
        labels: { engine: 'slurm', job_id: jobId, name: 'train', device: device_ },
        value,
      }));
    const metrics = [
      ...device('gpu:0', { total_bytes: 100, used_bytes: 40 }),
      ...device('gpu:1', { total_bytes: 100, used_bytes: 40 }),
      ...on('gpu:0', '1', { reserved_bytes: 50, used_bytes: 20, peak_bytes: 30 }),
      ...on('gpu:1', '1', { reserved_bytes: 50, used_bytes: 20, peak_bytes: 30 }),
      ...on('gpu:0', '2', { reserved_bytes: 20, used_bytes: 20, peak_bytes: 25 }),
      ...on('gpu:1', '3', { reserved_bytes: 30 }),
      ...on('gpu:1', '4', { used_bytes: 5 }),
    ];
    const { nodes, wasteful, totals } = fleetFrom(answersOf(new Map([['a:1', metrics]])));
    const [zero, one] = nodes[0]?.devices.toSorted((x, y) => x.id.localeCompare(y.id)) ?? [];
    expect([zero?.reservedBytes, zero?.unusedBytes]).toEqual([70, 30]);
    expect([one?.reservedBytes, one?.unusedBytes]).toEqual([80, 'unknown']);
    expect(wasteful).toMatchObject([
      { id: '1', devices: ['gpu:0', 'gpu:1'], reservedBytes: 100, usedBytes: 40, peakBytes: 60 },
    ]);
    expect(totals).toMatchObject({ jobs: 4, reservedBytes: 150, unusedBytes: 30 });
  });

  it('asks as many queries of ten nodes as of a thousand', async () => {
    const count = async (nodes: number) => {
      let asked = 0;
      const answers = madeAnswers(nodes, 1);
      await askFleet(
        {
          url: '',
          points: () => {
            asked += 1;
            return Promise.resolve(answers.devices);
          },
          lines: () => {
            asked += 1;
            return Promise.resolve([]);
          },
        },
        { nowMs: 1e12, windowSeconds: 3600, signal: new AbortController().signal },
      );
      return asked;
    };
    expect(await count(10)).toBe(instantQueryNames.length + historyQueryNames.length);
    expect(await count(1000)).toBe(16);
  });

  it('ends the other queries when one fails', async () => {
    const signals: AbortSignal[] = [];
    const failing = askFleet(
      {
        url: '',
        points: (_, signal) => {
          signals.push(signal);
          return signals.length === 2 ? Promise.reject(new Error('no')) : new Promise(() => {});
        },
        lines: () => Promise.resolve([]),
      },
      { nowMs: 0, windowSeconds: 60, signal: new AbortController().signal },
    );
    await expect(failing).rejects.toThrow('no');
    expect(signals.every(({ aborted }) => aborted)).toBe(true);
  });
});

it('are those of docs/fleet.md, and no others', () => {
  const page = readFileSync(new URL('../../docs/fleet.md', import.meta.url), 'utf8');
  const rows = [...page.matchAll(/^\| (\w+) \| `(max by .*)` \|$/gm)].map(([, name, text]) => [
    name,
    text?.replaceAll('[WINDOW]', '[3600s]'),
  ]);
  expect(rows).toEqual(instantQueryNames.map((name) => [name, instantQueries(3600)[name]]));
  expect(page).toContain(`| ${historyQueryNames.join(', ')} |`);
  expect(page).toContain(`There are ${instantQueryNames.length + historyQueryNames.length},`);
});
