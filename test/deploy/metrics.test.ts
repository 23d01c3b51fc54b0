import { expect, it, onTestFinished } from 'vitest';
import { attemptForTests } from '../../src/jobs/store/attempt-for-tests.js';
import { openNodeWatch } from '../../src/server/exporter/node-watch.js';
import { createFakeDaemon } from '../../src/server/fake-daemon-for-tests.js';
import { openMetrics } from '../../src/server/metrics/metrics.js';
import { systemClock } from '../../src/time/clock.js';
import { fakeDevice } from '../../src/watch/fake-device-for-tests.js';
import { eventually } from '../support/made-once.js';
import { deployText, deployYaml } from './deploy-files.js';
import { metricsIn, metricsOn } from './metric-names.js';

/** What Prometheus adds to all that it scrapes. One of ours by such a name would be renamed. */
const fromPrometheus = new Set(['instance', 'job']);

/** All texts that stand under this key, however deep. */
function textsUnder(node: unknown, wanted: string, key = ''): readonly string[] {
  if (typeof node === 'string') return key === wanted ? [node] : [];
  return Object.entries(Object(node)).flatMap(([name, value]) => textsUnder(value, wanted, name));
}

/** The real metrics of a server whose daemon has seen everything once. */
async function exportedMetrics(): Promise<string> {
  const daemon = createFakeDaemon();
  const metrics = openMetrics(daemon, () => 1, { name: 'n1', version: '1.2.3' });
  const [device] = daemon.devices();
  if (device === undefined) throw new Error('the fake daemon has no device');
  const forecast = { ...device.forecast, risk: 'high', etaSeconds: 30 } as const;
  const job = await daemon.submit({ command: ['true'] });
  const reservation = { jobId: job.id, name: job.name, bytes: 2, usedBytes: 1, isReleasing: false };
  daemon.setDevices([{ ...device, otherProcessesBytes: 0, forecast, reservations: [reservation] }]);
  const startedAt = job.submittedAt;
  const attempts = [attemptForTests({ peakBytes: 1, source: 'measured' })];
  const promised = { devices: [device.id], bytes: 2, basis: 'stated' } as const;
  daemon.change(job.id, { state: 'succeeded', startedAt, attempts, reservation: promised });
  metrics.countRequest({ method: 'GET', route: '/jobs', status: 200 });
  const page = await metrics.text();
  metrics.close();
  return page;
}

it('alerts and dashboard ask only for metrics and labels that the server exports', async () => {
  const exported = metricsOn(await exportedMetrics());
  const dashboard: unknown = JSON.parse(deployText('grafana/dashboards/plimsoll.json'));
  const all = [
    ...textsUnder(deployYaml('alerts.yml'), 'expr'),
    ...textsUnder(dashboard, 'expr'),
    ...textsUnder(dashboard, 'definition'),
  ];
  // Of Prometheus itself, whether it was answered.
  const expressions = all.filter((expression) => !expression.startsWith('up{'));
  expect(expressions.length).toBeGreaterThan(30);
  const unknown = expressions.flatMap((expression) => {
    const asked = metricsIn(expression);
    if (asked.length === 0) return [`no metric in: ${expression}`];
    return asked.flatMap(({ name, labels }) => {
      const known = exported.get(name);
      if (known === undefined) return [name];
      return labels
        .filter((label) => !known.has(label) && !fromPrometheus.has(label))
        .map((label) => `${name}{${label}}`);
    });
  });
  expect(unknown).toEqual([]);
});

it('offers the devices of a fleet that has exporters alone', async () => {
  const node = openNodeWatch({
    discovery: {
      devices: [fakeDevice()],
      notes: [],
      rescan: () => Promise.resolve({ appeared: [], vanished: [] }),
      close: () => {},
    },
    watch: { intervalSeconds: 60, processIntervalSeconds: 60 },
    loadLine: 0.9,
    maxProcesses: 1,
    node: 'n1',
    version: '1.2.3',
    clock: systemClock,
  });
  onTestFinished(() => node.close());
  await eventually(() => node.text().includes('plimsoll_device_total_bytes{'));
  const exported = metricsOn(node.text());
  const dashboard: unknown = JSON.parse(deployText('grafana/dashboards/plimsoll.json'));
  const variables = textsUnder(dashboard, 'definition').flatMap(metricsIn);
  expect(variables.map(({ name }) => name).filter((name) => !exported.has(name))).toEqual([]);
  expect(variables.length).toBeGreaterThan(1);
});

it('no metric has a label that Prometheus needs itself', async () => {
  const exported = metricsOn(await exportedMetrics());
  const renamed = [...exported].filter(([, labels]) =>
    [...labels].some((label) => fromPrometheus.has(label)),
  );
  expect(renamed.map(([name]) => name)).toEqual([]);
});

it('legends name labels that the server exports', async () => {
  const exported = metricsOn(await exportedMetrics());
  const { panels }: { panels: readonly { readonly targets?: readonly Target[] }[] } = JSON.parse(
    deployText('grafana/dashboards/plimsoll.json'),
  );
  const unknown = panels
    .flatMap(({ targets = [] }) => targets)
    .flatMap(({ expr, legendFormat = '' }) => {
      const asked = metricsIn(expr).map(({ name }) => exported.get(name));
      return [...legendFormat.matchAll(/\{\{(\w+)\}\}/g)]
        .map(([, label = '']) => label)
        .filter((label) => !asked.some((known) => known?.has(label)) && !fromPrometheus.has(label))
        .map((label) => `${label} of ${expr}`);
    });
  expect(unknown).toEqual([]);
});

it('jobs are stacked on the device that they are on', () => {
  const { panels }: { panels: readonly Panel[] } = JSON.parse(
    deployText('grafana/dashboards/plimsoll.json'),
  );
  const stacked = panels.filter(({ targets: [first] = [] }) =>
    /^plimsoll_job_(reserved|used)_bytes\{[^}]*\}$/.test(first?.expr ?? ''),
  );
  expect(stacked).toHaveLength(2);
  for (const { repeat, targets: [first] = [] } of stacked) {
    expect(repeat).toBe('device');
    expect(first?.expr).toContain('device=~"$device"');
  }
});

it('the buckets that alerts look at are there', async () => {
  const page = await exportedMetrics();
  const asked = [
    ...deployText('alerts.yml').matchAll(/(\w+_bucket)\{le="([^"]+)"\}/g),
    ...deployText('alerts.test.yml').matchAll(/(plimsoll_estimate\w+_bucket)\{le="([^"]+)"/g),
  ];
  expect(asked.length).toBeGreaterThan(0);
  for (const [, name, bound] of asked) expect(page).toContain(`${name}{le="${bound}"}`);
});

it('the panels of the dashboard have ids of their own and do not lie on each other', () => {
  const { panels }: { panels: readonly Panel[] } = JSON.parse(
    deployText('grafana/dashboards/plimsoll.json'),
  );
  expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
  const overlaps = panels.flatMap((one, index) =>
    panels.slice(index + 1).flatMap((other) => {
      const [a, b] = [one.gridPos, other.gridPos];
      const apart = a.x + a.w <= b.x || b.x + b.w <= a.x || a.y + a.h <= b.y || b.y + b.h <= a.y;
      return apart ? [] : [`${one.title} and ${other.title}`];
    }),
  );
  expect(overlaps).toEqual([]);
});

interface Target {
  readonly expr: string;
  readonly legendFormat?: string;
}

interface Panel {
  readonly targets?: readonly Target[];
  readonly repeat?: string;
  readonly id: number;
  readonly title: string;
  readonly gridPos: Readonly<Record<'x' | 'y' | 'w' | 'h', number>>;
}
