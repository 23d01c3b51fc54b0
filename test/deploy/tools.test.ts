import { type SpawnSyncReturns, spawnSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, type TestOptions } from 'vitest';
import { needs } from '../support/needs.js';
import { deployFolder, deployText } from './deploy-files.js';

/** The tools that know these files best; where one is missing, the rest is still checked. */
const tools = {
  'systemd-analyze': ['--version'],
  caddy: ['version'],
} as const;

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-deploy-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

function run(command: string, ...args: readonly string[]): SpawnSyncReturns<string> {
  return spawnSync(command, args, { encoding: 'utf8', cwd: folder });
}

function needsTool(tool: keyof typeof tools): TestOptions {
  return needs(spawnSync(tool, tools[tool]).status === 0, tool);
}

it('has a test for every alert', () => {
  const named = (text: string, key: string) =>
    new Set([...text.matchAll(new RegExp(`${key}: (\\w+)$`, 'gm'))].map((match) => match[1]));
  const alerts = named(deployText('alerts.yml'), 'alert');
  expect(alerts.size).toBeGreaterThan(5);
  expect(named(deployText('alerts.test.yml'), 'alertname')).toEqual(alerts);
});

it('expects the words that the alerts have', () => {
  const descriptions = (name: string) =>
    [...deployText(name).matchAll(/description: >-\n((?: {12,}\S.*\n)+)/g)].map(([, text = '']) =>
      text.trim().split(/\s+/).join(' '),
    );
  for (const name of ['alerts', 'exporter-alerts']) {
    const written = new Set(descriptions(`${name}.yml`));
    const expected = descriptions(`${name}.test.yml`);
    expect(expected.length).toBeGreaterThan(0);
    // With a template in it, only promtool can say how it reads.
    const isPlain = (text: string) => !/\d/.test(text);
    expect(expected.filter((text) => isPlain(text) && !written.has(text))).toEqual([]);
  }
});

describe('systemd-analyze', needsTool('systemd-analyze'), () => {
  it.each(['plimsoll.service', 'plimsoll-exporter.service'])('finds no fault with %s', (name) => {
    const home = join(folder, 'usr/local/bin');
    mkdirSync(home, { recursive: true });
    const program = join(home, 'plimsoll');
    writeFileSync(program, '#!/bin/sh\n');
    chmodSync(program, 0o755);
    const unit = join(folder, name);
    writeFileSync(unit, deployText(name).replace('/usr/local/bin/plimsoll', program));
    const { stderr } = run('systemd-analyze', 'verify', '--man=no', unit);
    const ours = stderr
      .split('\n')
      .filter((line) => line.includes(name))
      // Older ones do not know it; the unit says so.
      .filter((line) => !line.includes('DelegateSubgroup'));
    expect(ours).toEqual([]);
  });
});

describe('caddy', needsTool('caddy'), () => {
  it('can read its file', () => {
    const file = join(deployFolder, 'Caddyfile');
    const { status, stdout } = run('caddy', 'adapt', '--config', file, '--adapter', 'caddyfile');
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toHaveProperty('apps.http.servers');
  });
});
