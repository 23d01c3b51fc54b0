import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { attemptForTests } from '../../src/jobs/store/attempt-for-tests.js';
import { openNodeWatch } from '../../src/server/exporter/node-watch.js';
import { createFakeDaemon } from '../../src/server/fake-daemon-for-tests.js';
import { openMetrics } from '../../src/server/metrics/metrics.js';
import { systemClock } from '../../src/time/clock.js';
import { fakeDevice } from '../../src/watch/fake-device-for-tests.js';
import { useCommand } from '../cli/command.js';
import { textOf } from '../run/running.js';
import { kubernetesErrors, manifestsIn } from '../support/kubernetes-schema.js';
import { eventually } from '../support/made-once.js';
import {
  at,
  deployFolder,
  deployText,
  deployYaml,
  metricsIn,
  metricsOn,
  parsePlainYaml,
  textsOf,
} from './deploy-files.js';

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

const command = useCommand();
let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-deploy-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const unit = deployText('plimsoll-exporter.service');
const [, daemonSet = ''] = deployText('kubernetes/exporter.yaml').split(/^---$/m);
const manifest = parsePlainYaml(daemonSet);

describe('deploy/ for the exporter', () => {
  it('uses only options that the command has', async () => {
    const { stdout } = await command.run(['exporter', '--help']);
    const known = new Set([...stdout.matchAll(/(--[a-z-]+)/g)].map((match) => match[1]));
    const container = at(manifest, 'spec', 'template', 'spec', 'containers', 0);
    const used = [
      ...(/^ExecStart=(.*)$/m.exec(unit)?.[1] ?? '').split(' '),
      ...textsOf(at(container, 'command')),
      ...deployText('slurm/prolog-exporter.sh').split(/\s+/),
    ].filter((word) => word.startsWith('--'));
    expect(used.length).toBeGreaterThan(5);
    expect(used.filter((option) => !known.has(option))).toEqual([]);
  });

  it('names one port, and labels that select their own pods', () => {
    const pod = at(manifest, 'spec', 'template');
    const container = at(pod, 'spec', 'containers', 0);
    const [port = ''] = textsOf(at(container, 'ports', 0)).slice(-1);
    expect(at(container, 'ports', 0, 'containerPort')).toBe(port);
    expect(textsOf(at(container, 'command'))).toContain(port);
    expect(at(pod, 'metadata', 'annotations', 'prometheus.io/port')).toBe(port);
    expect(at(manifest, 'spec', 'selector', 'matchLabels')).toEqual(at(pod, 'metadata', 'labels'));
    expect(at(container, 'securityContext', 'allowPrivilegeEscalation')).toBe('false');
    expect(deployText('slurm/prolog-exporter.sh')).toContain(`:-${port}}`);
  });

  it('never fails a job: the prolog starts the exporter in a session of its own, and ends', async () => {
    const prolog = join(deployFolder, 'slurm/prolog-exporter.sh');
    const program = join(folder, 'plimsoll');
    const log = join(folder, 'log');
    writeFileSync(program, '#!/bin/sh\necho "$@ $(ps -o sid= -p $$ | tr -d " ") $$"\n');
    chmodSync(program, 0o755);
    const variables = { PLIMSOLL_LOG: log, PLIMSOLL_PORT: '9999', SLURMD_NODENAME: 'n7' };
    const run = (PLIMSOLL: string) =>
      spawnSync(prolog, { env: { ...process.env, ...variables, PLIMSOLL } }).status;
    expect(run('/nowhere/plimsoll')).toBe(0);
    expect(run(program)).toBe(0);
    // What it starts makes the log, which may come after its end.
    const lines = () => (textOf(log) ?? '').split('\n');
    await eventually(() => lines().length > 1);
    const [line = ''] = lines();
    expect(line).toMatch(/^exporter --host 0.0.0.0 --port 9999 --node n7 (\d+) \1$/);
  });

  it('has a test for every alert of nodes', () => {
    const named = (text: string, key: string) =>
      new Set([...text.matchAll(new RegExp(`${key}: (\\w+)$`, 'gm'))].map((match) => match[1]));
    const alerts = named(deployText('exporter-alerts.yml'), 'alert');
    expect(alerts.size).toBe(5);
    expect(named(deployText('exporter-alerts.test.yml'), 'alertname')).toEqual(alerts);
  });
});

describe('deploy/kubernetes', () => {
  it.each(['exporter.yaml', 'webhook.yaml'])(
    '%s is what Kubernetes publishes as its schema',
    (name) => {
      const manifests = manifestsIn(deployText(`kubernetes/${name}`));
      expect(manifests.map((one) => Object(one).kind)).toContain('Namespace');
      expect(manifests.flatMap(kubernetesErrors)).toEqual([]);
    },
  );

  it('has a namespace for each: the later one would remove what the earlier one allows', () => {
    const namespaces = ['exporter.yaml', 'webhook.yaml'].map((name) => {
      const [namespace, ...others] = manifestsIn(deployText(`kubernetes/${name}`)).map(Object);
      const inOne = others.flatMap(({ metadata }) => metadata.namespace ?? []);
      expect(new Set(inOne)).toEqual(new Set([namespace.metadata.name]));
      return namespace.metadata.name;
    });
    expect(new Set(namespaces).size).toBe(namespaces.length);
  });

  it('has a webhook whose names and ports fit together, with options that the command has', async () => {
    const [, deployment, service, configuration] = manifestsIn(
      deployText('kubernetes/webhook.yaml'),
    ).map(Object);
    const { metadata, spec } = deployment.spec.template;
    const [container] = spec.containers;
    expect(service.spec.selector).toEqual(metadata.labels);
    expect(deployment.spec.selector.matchLabels).toEqual(metadata.labels);
    const [port] = container.ports;
    expect(service.spec.ports[0].targetPort).toBe(port.name);
    expect(container.command).toContain(String(port.containerPort));
    const { clientConfig } = configuration.webhooks[0];
    expect(clientConfig.service).toMatchObject({
      namespace: service.metadata.namespace,
      name: service.metadata.name,
      port: service.spec.ports[0].port,
    });
    const { stdout } = await command.run(['serve', '--help']);
    const options: readonly string[] = container.command.filter((word: string) =>
      word.startsWith('--'),
    );
    expect(options.filter((option) => !stdout.includes(option))).toEqual([]);
  });
});
