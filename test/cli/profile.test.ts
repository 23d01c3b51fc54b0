import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { killWhen, noAlertsOfHost, useCommand } from './command.js';
import { openPty } from './pty.js';

const command = useCommand();
const inFolder = (...path: string[]) => join(command.folder(), ...path);
const read = (path: string) => JSON.parse(readFileSync(path, 'utf8'));

describe('plimsoll profile', () => {
  it('writes the report as JSON and as a page, and a summary for people', async () => {
    const watch = ['profile', '--duration', '1', '--interval', '0.05', '--devices', '0', 'host'];
    const files = ['--simulate', 'steady', '--output', 'report.json', '--html', 'report.html'];
    const { stdout, stderr, exitCode } = await command.run([...watch, ...files], {
      environment: noAlertsOfHost,
    });
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
    expect(stdout).toMatch(/samples of 2 devices/);
    const report = read(inFolder('report.json'));
    expect(report).toMatchObject({ intervalSeconds: 0.05, interrupted: false });
    expect(Object.keys(report.devices)).toEqual(['gpu:0', 'host']);
    expect(report.devices['gpu:0'].statistics.samplesCount).toBeGreaterThan(1);
    expect(report.devices['gpu:0'].provenance).toBe('simulated');
    expect(readFileSync(inFolder('report.html'), 'utf8')).toMatch(/^<!doctype html>[^]*<svg/i);
  });

  it('prints exactly one JSON document with --json', async () => {
    const { stdout, exitCode } = await command.run(['profile', '--duration', '0.3', '--json']);
    expect(exitCode).toBe(0);
    expect(JSON.parse(stdout)).toHaveProperty(['devices', 'host', 'statistics', 'samplesCount']);
  });

  it('draws a chart when no file was asked for', async () => {
    const { stdout } = await command.run(['profile', '--duration', '0.5', '--simulate', 'spikes']);
    expect(stdout).toMatch(/^gpu:0 .*simulated\n(.*\n){5} {2}0 s/m);
  });

  it.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('still writes its files when ended by %s', async (signal, expected) => {
    const output = `${signal}.json`;
    const html = `${signal}.html`;
    const { exitCode } = await command.run(
      ['profile', '--duration', '0', '--simulate', 'full', '--output', output, '--html', html],
      // The alert of the full device says that watching is under way.
      {
        onOutput: killWhen(({ stderr }) => stderr.includes('gpu-critical'), signal),
      },
    );
    expect(exitCode).toBe(expected);
    expect(read(inFolder(output))).toMatchObject({ interrupted: true });
    expect(read(inFolder(output)).alerts).not.toEqual([]);
    expect(existsSync(inFolder(html))).toBe(true);
  });

  it('shows its progress on a terminal, and writes its files when that is closed', async () => {
    const argv = ['profile', '--duration', '0', '--simulate', 'steady', '--output', 'closed.json'];
    const cwd = command.folder();
    const pty = openPty([process.execPath, command.path(), ...argv], {
      columns: 80,
      rows: 24,
      cwd,
    });
    await pty.shows(/\r\d+\.\d s {3}gpu:0 \d+\.\d of /);
    pty.hangUp();
    // By the signal, which a shell would show as 129.
    expect(await pty.end).toMatchObject({ exitCode: -1 });
    expect(read(inFolder('closed.json'))).toMatchObject({ interrupted: true });
  });

  it('refuses a file that cannot be written before it profiles, not after', async () => {
    writeFileSync(inFolder('plain'), '');
    // In the last one not even root may make a file.
    for (const output of ['no/such/report.json', 'plain/report.json', '.', '/sys/report.json']) {
      // Without an end: it must not come to watching at all.
      const argv = ['profile', '--duration', '0', '--output', output];
      const { stdout, stderr, exitCode } = await command.run(argv);
      expect(stderr).toContain(`plimsoll: cannot-write: ${output} cannot be written: `);
      expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
    }
    const twice = ['profile', '--duration', '0', '--output', 'one', '--html', './one'];
    expect((await command.run(twice)).stderr).toContain('name two files');
  });

  it('leaves no part of a file behind on a full disk, and still writes the other one', async () => {
    const disk = tinyDisk(inFolder('disk'));
    const argv = ['profile', '--duration', '1', '--simulate', 'steady', '--output', disk.file];
    try {
      const { stderr, exitCode } = await command.run([...argv, '--html', 'kept.html']);
      expect(stderr).toMatch(/plimsoll: disk-full: .* cannot be written: the disk is full\./);
      expect(exitCode).toBe(3);
      expect(disk.left()).toEqual([]);
      expect(existsSync(inFolder('kept.html'))).toBe(true);
    } finally {
      disk.remove();
    }
  });

  it('delivers alerts to a command', async () => {
    const cwd = inFolder('deliver');
    mkdirSync(cwd);
    const config = {
      simulate: 'full',
      alerts: {
        deliver: { command: ['sh', '-c', 'cat >> alerts.jsonl'], log: 'alerts.log' },
      },
    };
    writeFileSync(join(cwd, 'plimsoll.config.json'), JSON.stringify(config));
    await command.run(['profile', '--duration', '1', '--json'], { cwd });
    const kinds = readFileSync(join(cwd, 'alerts.jsonl'), 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line).kind);
    expect(kinds).toContain('gpu-critical');
    expect(readFileSync(join(cwd, 'alerts.log'), 'utf8')).toMatch(/gpu-critical/);
  });
});

/** One page of memory where we may mount, else the device that is always full. */
function tinyDisk(folder: string): { file: string; left: () => string[]; remove: () => void } {
  mkdirSync(folder);
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=4k', 'tmpfs', folder], { stdio: 'ignore' });
  } catch {
    return { file: '/dev/full', left: () => readdirSync(folder), remove: () => {} };
  }
  return {
    file: join(folder, 'report.json'),
    left: () => readdirSync(folder),
    remove: () => execFileSync('umount', [folder]),
  };
}
