import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { useCommand } from '../cli/command.js';
import { textOf } from '../run/running.js';
import { kubernetesErrors, manifestsIn } from '../support/kubernetes-schema.js';
import { eventually } from '../support/made-once.js';
import { at, deployFolder, deployText, textsOf } from './deploy-files.js';
import { parsePlainYaml } from './plain-yaml.js';

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
