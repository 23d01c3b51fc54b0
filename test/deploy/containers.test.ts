import { spawn } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readJobVariables } from '../../src/jobs/job-variables.js';
import { useCommand } from '../cli/command.js';
import { root } from '../support/project-files.js';
import type { Yaml } from './deploy-files.js';
import {
  at,
  deployFolder,
  deployText,
  deployYaml,
  entriesOf,
  listOf,
  textsOf,
} from './deploy-files.js';

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

let folder: string;

/** The script with a stand-in for the server; `onLine` hears each line that it prints. */
function start(server: string, onLine: (line: string, script: { kill(): void }) => void) {
  const program = join(folder, 'plimsoll');
  writeFileSync(program, `#!/bin/sh\n${server}\n`);
  chmodSync(program, 0o755);
  const script = spawn('/bin/sh', [join(deployFolder, 'container-start.sh'), '--port', '8000'], {
    env: { PATH: `${folder}${delimiter}${process.env['PATH'] ?? ''}`, FOLDER: folder },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines: string[] = [];
  script.stdout.setEncoding('utf8').on('data', (text: string) => {
    for (const line of text.split('\n').filter((one) => one !== '')) {
      lines.push(line);
      onLine(line, { kill: () => script.kill('SIGTERM') });
    }
  });
  return new Promise<{ code: number | null; lines: readonly string[] }>((resolve) => {
    script.once('close', (code) => resolve({ code, lines }));
  });
}

describe('deploy/container-start.sh', () => {
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'plimsoll container '));
  });
  afterEach(() => {
    rmSync(folder, { recursive: true, force: true });
  });

  it('hands its options on, and starts a server again that was killed', async () => {
    const server = [
      'echo "started $*"',
      'if [ ! -e "$FOLDER/once" ]; then : > "$FOLDER/once"; kill -9 $$; fi',
      'exit 0',
    ].join('\n');
    const { code, lines } = await start(server, () => {});
    expect(lines).toEqual(['started serve --port 8000', 'started serve --port 8000']);
    expect(code).toBe(0);
  });

  it('stops when it is asked to, once the server has', async () => {
    const server = "trap 'echo asked; exit 0' TERM\necho ready\nwhile :; do sleep 0.05; done";
    const { code, lines } = await start(server, (line, script) => {
      if (line === 'ready') script.kill();
    });
    expect(lines).toEqual(['ready', 'asked']);
    expect(code).toBe(0);
  });

  it.each([2, 3])('does not try again what cannot work: exit code %i', async (exitCode) => {
    const { code, lines } = await start(`echo started\nexit ${exitCode}`, () => {});
    expect(lines).toEqual(['started']);
    expect(code).toBe(exitCode);
  });
});

const dockerfile = deployText('Dockerfile');
const lines = dockerfile.replaceAll('\\\n', ' ').split('\n');
const ignored = deployText('Dockerfile.dockerignore').split('\n');

function instructions(name: string): readonly string[] {
  return lines.flatMap((line) =>
    line.startsWith(`${name} `) ? [line.slice(name.length + 1)] : [],
  );
}

/** What is copied from the checkout, not from another stage. */
const copied = instructions('COPY')
  .filter((line) => !line.includes('--from='))
  .flatMap((line) =>
    line
      .split(/\s+/)
      .filter((word) => !word.startsWith('--'))
      .slice(0, -1),
  )
  .filter((path) => path !== '.');

describe('deploy/Dockerfile', () => {
  it('names its images by their version', () => {
    const defaults = instructions('ARG').map((line) => line.split('=')[1] ?? '');
    expect(defaults.length).toBeGreaterThan(0);
    expect(defaults.filter((image) => !/:\d+\.\d+\.\d+/.test(image))).toEqual([]);
    expect(instructions('FROM')).toEqual(['${NODE} AS build', '${BASE}']);
  });

  it('does not run as root, keeps its state in a volume, and is asked how it is', () => {
    expect(instructions('USER').at(-1)).toMatch(/^[1-9]\d*:[1-9]\d*$/);
    expect(instructions('VOLUME')).toEqual(['/state']);
    expect(instructions('ENV')).toEqual(['PLIMSOLL_HOME=/state']);
    expect(dockerfile).toMatch(/^HEALTHCHECK [^]*?\/healthz/m);
  });

  it('copies files that are there and that the ignore file lets in', () => {
    expect(copied).toContain('deploy/container-start.sh');
    expect(copied.filter((path) => !existsSync(join(root, path)))).toEqual([]);
    const hidden = copied.filter(
      (path) => !ignored.some((line) => line.startsWith('!') && path.startsWith(line.slice(1))),
    );
    expect(hidden).toEqual([]);
  });

  it('takes nothing along but what it names', () => {
    expect(ignored.find((line) => line !== '' && !line.startsWith('#'))).toBe('*');
    const asked = ignored.filter((line) => line.startsWith('!')).map((line) => line.slice(1));
    expect(asked.filter((path) => !existsSync(join(root, path)))).toEqual([]);
    expect(asked.filter((path) => /\.git|\.env|token|^deploy$/.test(path))).toEqual([]);
  });
});

const settings = deployText('plimsoll.service')
  .split('\n')
  .flatMap((line) => {
    const match = /^([A-Z]\w*)=(.*)$/.exec(line);
    return match ? [[match[1] ?? '', match[2] ?? ''] as const] : [];
  });

function valueOf(key: string): string | undefined {
  return settings.find(([name]) => name === key)?.[1];
}

describe('deploy/plimsoll.service', () => {
  it('leaves jobs alone when the server stops, is killed, or a job runs out of memory', () => {
    expect(valueOf('KillMode')).toBe('process');
    expect(valueOf('Restart')).toBe('on-failure');
    expect(valueOf('OOMPolicy')).toBe('continue');
  });

  it('sets nothing that would take from jobs what they need', () => {
    // Each holds for jobs, too: no GPU, no /tmp after a restart, no code made at run time, ...
    const harmful = new Set([
      'PrivateTmp',
      'PrivateDevices',
      'DevicePolicy',
      'DeviceAllow',
      'ProtectClock',
      'MemoryDenyWriteExecute',
      'PrivateNetwork',
      'ProtectHome',
      'RestrictNamespaces',
      'OOMScoreAdjust',
      'RuntimeMaxSec',
      'MemoryMax',
    ]);
    expect(settings.filter(([name]) => harmful.has(name))).toEqual([]);
    expect(valueOf('ProtectSystem')).toBe('full');
  });

  it('keeps the token out of the command line and the environment', () => {
    expect(valueOf('LoadCredential')).toBe('token:/etc/plimsoll/token');
    expect(valueOf('ExecStart')).toContain('--token-file ${CREDENTIALS_DIRECTORY}/token');
    expect(settings.some(([, value]) => value.includes('PLIMSOLL_TOKEN'))).toBe(false);
  });
});

describe('options of the server', () => {
  const command = useCommand();

  it('are all known to it, in the unit, the image and the compose file', async () => {
    const { stdout } = await command.run(['serve', '--help']);
    const known = new Set([...stdout.matchAll(/(--[a-z-]+)/g)].map((match) => match[1]));
    const image = /^CMD \[(.*)\]$/m.exec(deployText('Dockerfile'))?.[1] ?? '';
    const composed = textsOf(at(deployYaml('compose.yaml'), 'services', 'plimsoll', 'command'));
    const text = [valueOf('ExecStart') ?? '', image, ...composed].join(' ');
    const used = [...text.matchAll(/(?<![\w-])(--[a-z-]+)/g)];
    expect(used.length).toBeGreaterThan(6);
    expect(used.map((match) => match[1]).filter((option) => !known.has(option))).toEqual([]);
  });
});
