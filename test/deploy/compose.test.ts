import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readJobVariables } from '../../src/jobs/job-variables.js';
import { at, deployFolder, deployYaml, entriesOf, listOf, textsOf } from './deploy-files.js';
import type { Yaml } from './plain-yaml.js';

const compose = deployYaml('compose.yaml');
const service = at(compose, 'services', 'plimsoll');
const services = listOf(at(compose, 'services'));
const environment = Object.fromEntries(entriesOf(at(service, 'environment')));

function textOf(value: Yaml | undefined): string {
  return typeof value === 'string' ? value : '';
}

/** As Compose fills it in where nothing is set. */
function filled(value: Yaml | undefined): string {
  return textOf(value).replaceAll(/\$\{\w+:-([^}]*)\}/g, '$1');
}

describe('deploy/compose.yaml', () => {
  it('sets only variables of earlier tools that we understand', () => {
    expect(Object.keys(environment)).toHaveLength(5);
    for (const name of Object.keys(environment)) {
      expect(() => readJobVariables({ [name]: '?' })).toThrow(name);
    }
  });

  it('has defaults that can be read', () => {
    const values = Object.entries(environment).map(([name, value]) => [name, filled(value)]);
    expect(readJobVariables(Object.fromEntries(values))).toEqual({ useGpus: true });
  });

  it('reserves GPUs as Docker wants it', () => {
    const place = ['deploy', 'resources', 'reservations', 'devices', 0] as const;
    const device = at(service, ...place);
    expect(at(device, 'driver')).toBe('nvidia');
    expect(at(device, 'capabilities')).toEqual(['gpu']);
    expect(filled(at(device, 'count'))).toBe('all');
  });

  it('hands secrets over as files, and none as a variable', () => {
    for (const one of services) {
      const set = 'environment' in Object(one) ? entriesOf(at(one, 'environment')) : [];
      const bare = set.filter(([name]) => /TOKEN|PASSWORD|SECRET/.test(name));
      expect(bare.filter(([name]) => !name.endsWith('__FILE'))).toEqual([]);
    }
    expect(textsOf(at(service, 'secrets'))).toEqual(['plimsoll_token']);
    const used = services.flatMap((one) =>
      'secrets' in Object(one) ? textsOf(at(one, 'secrets')) : [],
    );
    const declared = entriesOf(at(compose, 'secrets')).map(([name]) => name);
    expect(new Set(used)).toEqual(new Set(declared));
  });

  it('opens ports to this machine alone', () => {
    const ports = services.flatMap((one) => textsOf(at(one, 'ports')));
    expect(ports).toHaveLength(3);
    expect(ports.filter((port) => !port.startsWith('127.0.0.1:'))).toEqual([]);
  });

  it('names images by their version', () => {
    const images = services.map((one) => at(one, 'image'));
    expect(images.filter((image) => !/:v?\d+\.\d+\.\d+/.test(textOf(image)))).toEqual([]);
  });

  it('mounts files that are there, and volumes that it declares', () => {
    const declared = entriesOf(at(compose, 'volumes')).map(([name]) => name);
    const mounts = services.flatMap((one) => textsOf(at(one, 'volumes')));
    const sources = mounts.map((mount) => filled(mount).split(':')[0] ?? '');
    const [files, volumes] = [
      sources.filter((source) => source.startsWith('.')),
      sources.filter((source) => !source.startsWith('.')),
    ];
    expect(files.length).toBeGreaterThan(0);
    expect(files.filter((file) => !existsSync(join(deployFolder, file)))).toEqual([]);
    expect(new Set(volumes)).toEqual(new Set(declared));
  });

  it('lets Prometheus ask by the name that the server knows', () => {
    const target = at(deployYaml('prometheus.yml'), 'scrape_configs', 0, 'static_configs', 0);
    const [name = ''] = textsOf(at(target, 'targets'));
    expect(textsOf(at(service, 'command'))).toContain(`--allow-host=${name.split(':')[0]}`);
  });
});
