import { describe, expect, it } from 'vitest';
import { fleetOf } from '../../fleet/fleet.js';
import { madeAnswers } from '../../fleet/made-fleet-for-tests.js';
import { fleetText, trainingText } from './fleet-text.js';

const fleet = fleetOf({
  epochMs: 0,
  windowSeconds: 3600,
  answers: madeAnswers(120, 8),
  history: { epochMs: [0, 1], totalBytes: [10, 10], usedBytes: [2, 5], reservedBytes: [0, 0] },
});
const options = { columns: 120, style: { colour: false, unicode: true } };

describe('the fleet on a terminal', () => {
  it('begins with sums, then the devices with the greatest risk of all nodes', () => {
    const lines = fleetText(fleet, options).split('\n');
    expect(lines[0]).toBe('120 nodes, 960 GPUs (960 simulated), 56.3 TiB.');
    const head = lines.findIndex((line) => line.startsWith('NODE'));
    const risks = lines.slice(head + 1, head + 7).map((line) => line.split(/ {2,}/).slice(0, 3));
    expect(risks.slice(0, 3)).toEqual([
      ['n0003', 'gpu:1', 'critical'],
      ['n0053', 'gpu:1', 'critical'],
      ['n0103', 'gpu:1', 'critical'],
    ]);
    expect(risks.slice(3).map(([, , risk]) => risk)).toEqual(['medium', 'medium', 'medium']);
    expect(lines).toContain('and 948 more (--all shows them)');
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(120);
  });

  it('shows all of it where that is asked for, and no mark of something cut off at a line end', () => {
    const lines = fleetText(fleet, { ...options, columns: 160, all: true }).split('\n');
    expect(lines.length).toBeGreaterThan(960);
    expect(lines.filter((line) => line.endsWith('…'))).toEqual([]);
  });

  it('shows a training rank by rank', () => {
    const [training] = fleet.trainings;
    if (training === undefined) throw new Error('there is no training');
    const text = trainingText(training, options);
    expect(text).toMatch(/^slurm t0 \(pretrain\): 32 ranks on 4 nodes\.$/m);
    expect(text).toMatch(/^Between the largest and the smallest rank lie \d+\.\d GiB\.$/m);
    expect(text.match(/tightest$/gm)).toHaveLength(1);
  });
});
