import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../time/clock.js';
import { RunFolder } from '../store/run-folder.js';
import { endingOf, takeRoom } from './ending.js';
import { keeperHasNoPlace, keeperScript, starterScript } from './keeper-scripts.js';

function attempt() {
  const home = mkdtempSync(join(tmpdir(), 'plimsoll-room-'));
  onTestFinished(() => rmSync(home, { recursive: true }));
  const folder = new RunFolder(home, '20261116-110000000-0000');
  mkdirSync(folder.path, { recursive: true });
  const files = folder.attemptFiles(1);
  const words = ['plimsoll-keeper', files.exitCode, files.keeperPid, starterScript, 'plimsoll-job'];
  const start = (...command: readonly string[]) => {
    const argv = ['-c', keeperScript, ...words, files.jobPid, '', '', ...command];
    const stdio = ['ignore', 'pipe', 'inherit', 'ignore'] as const;
    return spawnSync('/bin/sh', argv, { stdio: [...stdio] }).status ?? -1;
  };
  const ended = (keeper: number | 'unknown') =>
    endingOf(keeper, {
      files,
      procRoot: '/proc',
      clock: systemClock,
      isOurs: () => false,
      reap: () => undefined,
    });
  return { files, start, ended };
}

describe('the room of an attempt', () => {
  it('holds the exit code, and is given back when there was nothing to hold', async () => {
    const { files, start, ended } = attempt();
    takeRoom(files);
    expect(start('sh', '-c', 'exit 3')).toBe(3);
    expect(readFileSync(files.exitCode, 'utf8')).toBe('003\n');
    expect(await ended(3)).toBe(3);
    expect(existsSync(`${files.exitCode}.new`)).toBe(false);
  });

  it('lets an attempt begin whose keeper had no room for its pid', async () => {
    const { files, start, ended } = attempt();
    takeRoom(files);
    writeFileSync(files.keeperPid, '');
    expect(start('true')).toBe(keeperHasNoPlace);
    await expect(ended(keeperHasNoPlace)).rejects.toThrow('no space left');
    takeRoom(files);
    expect(start('sh', '-c', 'exit 4')).toBe(4);
    expect(await ended(4)).toBe(4);
  });

  it('does not give the place of a keeper that has it to another', () => {
    const { files, start } = attempt();
    writeFileSync(files.keeperPid, '12\n');
    takeRoom(files);
    expect(start('true')).toBe(keeperHasNoPlace);
    expect(readFileSync(files.keeperPid, 'utf8')).toBe('12\n');
  });
});

describe('how an attempt ended', () => {
  it('is what its keeper ended with, where the file could not be written', async () => {
    const { files, start, ended } = attempt();
    mkdirSync(join(files.exitCode, 'in-the-way'), { recursive: true });
    takeRoom(files);
    expect(await ended(start('sh', '-c', 'exit 5'))).toBe(5);
  });

  it('is unknown where the keeper was killed and wrote nothing', async () => {
    const { files, ended } = attempt();
    takeRoom(files);
    expect(await ended('unknown')).toBe('unknown');
  });
});
