import { describe, expect, it } from 'vitest';
import { useCommand } from '../cli/command.js';
import { at, deployText, deployYaml, textsOf } from './deploy-files.js';

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
