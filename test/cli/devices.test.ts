import { spawnSync } from 'node:child_process';
import { totalmem } from 'node:os';
import { describe, expect, it } from 'vitest';
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
