import { spawnSync } from 'node:child_process';
import { readdirSync, writeFileSync } from 'node:fs';
import { totalmem } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { needsLinux } from '../support/needs.js';
import { cleanEnvironment, useCommand } from './command.js';

const command = useCommand();

describe('plimsoll devices', () => {
  it('lists the host with real figures and the processes that hold memory', async () => {
    const { stdout, stderr, exitCode } = await command.run(['devices', '--json']);
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
    const { devices, notes } = JSON.parse(stdout);
    expect(notes).toEqual(expect.any(Array));
    const host = devices.find(({ id }: { id: string }) => id === 'host');
    expect(host).toMatchObject({ kind: 'host', source: 'host', provenance: 'measured' });
    expect(host.totalBytes).toBeGreaterThan(0);
    expect(host.totalBytes).toBeLessThanOrEqual(totalmem());
    expect(host.usedBytes + host.freeBytes).toBeLessThanOrEqual(host.totalBytes);
    expect(host.processes[0]).toEqual({
      pid: expect.any(Number),
      name: expect.any(String),
      usedBytes: expect.any(Number),
    });
  });

  it('shows people a table', async () => {
    const { stdout, exitCode } = await command.run(['devices', '--simulate', 'steady']);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^gpu:0 .*simulated/m);
    expect(stdout).toMatch(/^host .*measured/m);
    expect(stdout).not.toContain('\u001B');
  });

  it('takes only the devices that were named', async () => {
    const { stdout } = await command.run([
      'devices',
      '--simulate',
      'full',
      '--devices',
      '0',
      '--json',
    ]);
    expect(JSON.parse(stdout).devices.map(({ id }: { id: string }) => id)).toEqual(['gpu:0']);
  });

  it('does not take an answer that could not be written for success', () => {
    const { stderr, status } = spawnSync(
      'sh',
      ['-c', '"$0" "$1" devices --json > /dev/full', process.execPath, command.path()],
      {
        env: cleanEnvironment(),
        encoding: 'utf8',
      },
    );
    expect(stderr).toMatch(/^plimsoll: cannot-write: The answer could not be written to stdout/);
    expect(status).toBe(3);
  });
});

interface Answer {
  readonly ok: boolean;
  readonly checks: readonly {
    readonly name: string;
    readonly state: string;
    readonly fact: string;
    readonly next?: string;
  }[];
}

function parsed(stdout: string): Answer {
  const answer: Answer = JSON.parse(stdout);
  return answer;
}

describe('plimsoll doctor', () => {
  const command = useCommand();

  it('tries everything, says that it works here, and leaves nothing in the home', async () => {
    const { stdout, exitCode } = await command.run(['doctor', '--json']);
    const { ok, checks } = parsed(stdout);
    expect({ ok, exitCode }).toEqual({ ok: true, exitCode: 0 });
    const names = checks.map(({ name }) => name).filter((name) => name !== 'torch');
    expect(names).toEqual([
      'node',
      'koffi',
      'sqlite',
      'gpus',
      'host-limit',
      'home',
      'shared-memory',
      'python',
      'clock',
      'configuration',
    ]);
    expect(readdirSync(join(command.folder(), '..', 'home'))).toEqual([]);
  });

  it('shows each check with its state as text, and ends with the verdict', async () => {
    const { stdout } = await command.run(['doctor', '--python', 'no-such-python']);
    expect(stdout).toMatch(/^ok +node +Node v\d/m);
    expect(stdout).toMatch(
      /^absent +python +no-such-python does not run: there is no such program/m,
    );
    expect(stdout).toMatch(/^ +-> Install Python 3\.9/m);
    expect(stdout).toMatch(/\nThis installation works(, with \d+ limitations?)?\.\n$/);
  });

  it(
    'exits with 1 when the home cannot be written, and names the way out',
    needsLinux,
    async () => {
      const environment = { PLIMSOLL_HOME: '/proc/plimsoll' };
      const { stdout, exitCode } = await command.run(['doctor', '--json'], { environment });
      expect(exitCode).toBe(1);
      const home = parsed(stdout).checks.find(({ name }) => name === 'home');
      expect(home).toEqual({
        name: 'home',
        state: 'broken',
        fact: '/proc/plimsoll cannot be written: ENOENT.',
        next: 'Make it writable for your user, or set PLIMSOLL_HOME to a folder of yours.',
      });
    },
  );

  it('reports a configuration that is not valid beside the other checks', async () => {
    writeFileSync(join(command.folder(), 'bad.json'), '{"interval": -1}');
    const { stdout, exitCode } = await command.run(['doctor', '--config', 'bad.json']);
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(/^broken +configuration +/m);
    expect(stdout).toMatch(/^ok +node/m);
    expect(stdout).toMatch(/This installation does not work: 1 check failed\.\n$/);
  });

  it('survives a program that is no Python', async () => {
    const { stdout } = await command.run(['doctor', '--python', '/bin/echo', '--json']);
    const python = parsed(stdout).checks.find(({ name }) => name === 'python');
    expect(python?.fact).toMatch(/it did not answer as Python does/);
  });
});
