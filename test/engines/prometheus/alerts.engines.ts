import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { deployFolder, deployText } from '../../deploy/deploy-files.js';
import { prometheusPackages } from './prometheus-server.js';

const fine = { status: 0, stderr: '' };

function promtool(...words: readonly string[]): object {
  const program = join(prometheusPackages(), 'usr/bin/promtool');
  const { status, stderr } = spawnSync(program, words, { encoding: 'utf8' });
  return { status, stderr };
}

it.each(['alerts', 'exporter-alerts'])('promtool finds no fault with %s, and they fire', (name) => {
  expect(promtool('check', 'rules', join(deployFolder, `${name}.yml`))).toEqual(fine);
  expect(promtool('test', 'rules', join(deployFolder, `${name}.test.yml`))).toEqual(fine);
});

it('promtool finds no fault with the configuration', () => {
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-alerts-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  // It wants to see the token, which is only there where the server runs.
  writeFileSync(join(folder, 'token'), 'x');
  copyFileSync(join(deployFolder, 'alerts.yml'), join(folder, 'alerts.yml'));
  const config = deployText('prometheus.yml').replace('/run/secrets/plimsoll_token', 'token');
  writeFileSync(join(folder, 'prometheus.yml'), config);
  expect(promtool('check', 'config', join(folder, 'prometheus.yml'))).toEqual(fine);
});
