import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isInstalled } from '../scripts/installed.mjs';
import { isSupported, lacking, parsePins, stampOf } from '../scripts/python-pins.mjs';
import { textOf } from './run/running.js';
import { needsLinux } from './support/needs.js';
import { root } from './support/project-files.js';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll package '));
});
afterEach(() => {
  rmSync(folder, { recursive: true });
});

/** A copy with nothing but package.json beside it: no dist, no node_modules. */
function bareCopy(): string {
  mkdirSync(join(folder, 'bin'));
  copyFileSync(join(root, 'bin/plimsoll.js'), join(folder, 'bin/plimsoll.js'));
  copyFileSync(join(root, 'package.json'), join(folder, 'package.json'));
  return join(folder, 'bin/plimsoll.js');
}

/** What the fake Node was started with. */
function launch(command: string, cwd = folder): string[] {
  // An empty environment, as on a machine that has nothing set up.
  const started = spawnSync('/bin/sh', ['-c', command], { cwd, env: {}, encoding: 'utf8' });
  expect(started.stderr).toBe('');
  return started.stdout.split('\n').slice(0, -1);
}

describe('bin/plimsoll.js', () => {
  const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));

  it.each(['--version', '-V'])('answers %s from package.json alone', (option) => {
    const result = spawnSync(process.execPath, [bareCopy(), option], { encoding: 'utf8' });
    expect(result).toMatchObject({ status: 0, stdout: `${version}\n`, stderr: '' });
  });

  it('names the next step when dist is missing', () => {
    const result = spawnSync(process.execPath, [bareCopy(), 'devices'], { encoding: 'utf8' });
    expect(result).toMatchObject({ status: 3, stdout: '' });
    expect(result.stderr).toMatch(/^plimsoll: not-built: .*"npm run build".*\n$/);
  });

  it('hands the arguments to the command and its answer to the shell', () => {
    const starter = bareCopy();
    mkdirSync(join(folder, 'dist/cli'), { recursive: true });
    writeFileSync(
      join(folder, 'dist/cli/main.js'),
      'export const main = async (argv) => { process.stdout.write(argv.join()); return 41; };',
    );
    const result = spawnSync(process.execPath, [starter, 'leak', '--version'], {
      encoding: 'utf8',
    });
    expect(result).toMatchObject({ status: 41, stdout: 'leak,--version' });
  });
});

describe('the launcher of the archives', () => {
  /** An unpacked archive whose "node" tells what it was started with. */
  beforeEach(() => {
    mkdirSync(join(folder, 'unpacked here/runtime'), { recursive: true });
    copyFileSync(join(root, 'scripts/bundle/launcher.sh'), join(folder, 'unpacked here/plimsoll'));
    const node = join(folder, 'unpacked here/runtime/node');
    writeFileSync(node, '#!/bin/sh\nprintf "%s\\n" "$@"\n');
    chmodSync(join(folder, 'unpacked here/plimsoll'), 0o755);
    chmodSync(node, 0o755);
  });

  it.each([
    ['from its folder', './plimsoll', 'unpacked here'],
    ['by a shell', 'sh plimsoll', 'unpacked here'],
    ['from elsewhere', '"unpacked here/plimsoll"', ''],
  ])('finds its Node when started %s', (_, command, cwd) => {
    expect(launch(`${command} devices "a b" ''`, join(folder, cwd))).toEqual([
      join(folder, 'unpacked here/bin/plimsoll.js'),
      'devices',
      'a b',
      '',
    ]);
  });

  it('finds it through links to links, relative and absolute', () => {
    mkdirSync(join(folder, 'links -> here'));
    symlinkSync('../unpacked here/plimsoll', join(folder, 'links -> here/relative'));
    symlinkSync(join(folder, 'links -> here/relative'), join(folder, 'absolute'));
    symlinkSync('absolute', join(folder, 'plimsoll'));
    const expected = join(folder, 'unpacked here/bin/plimsoll.js');
    expect(launch('./plimsoll')).toEqual([expected]);
    expect(launch('PATH=$PWD:/bin:/usr/bin; plimsoll')).toEqual([expected]);
  });
});

it('has a command that can be started by its name', () => {
  expect(statSync(join(root, 'bin/plimsoll.js')).mode & 0o111).toBe(0o111);
});

it(
  'ends the daemons of a command that is interrupted, and removes their folder',
  needsLinux,
  async () => {
    // One is found by its environment, the other by a file that it has open.
    const daemons = `
    const { spawn } = require('node:child_process');
    const { openSync } = require('node:fs');
    const folder = process.env.TMPDIR;
    const file = openSync(folder + '/log', 'w');
    const stdio = ['ignore', file, 'ignore'];
    const pids = [
      spawn('sleep', ['1000000'], { detached: true, stdio: 'ignore' }),
      spawn('sleep', ['1000000'], { detached: true, stdio, env: {} }),
    ].map(({ pid }) => pid);
    console.log(JSON.stringify({ folder, pids }));
    setInterval(() => {}, 1000);`;
    const steps = JSON.stringify(pathToFileURL(join(root, 'scripts/steps.mjs')).href);
    const words = JSON.stringify(['-e', daemons]);
    const script = `const { runWithDaemons } = await import(${steps});
    process.exitCode = await runWithDaemons([process.execPath, ${words}]);`;
    const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = await once(createInterface({ input: child.stdout }), 'line');
    const { folder: own, pids }: { folder: string; pids: readonly number[] } = JSON.parse(line);
    child.kill('SIGINT');
    expect(await once(child, 'exit')).toEqual([130, null]);
    expect(existsSync(own)).toBe(false);
    expect(pids).toHaveLength(2);
    // The one that nobody waits for stays in the table, dead.
    const runs = (pid: number) => /^State:\s+[^Z]/m.test(textOf(`/proc/${pid}/status`) ?? '');
    expect(pids.filter(runs)).toEqual([]);
  },
);

describe('isInstalled', () => {
  const lockfile = {
    packages: {
      '': { version: '0.1.0' },
      'node_modules/a': { version: '1.0.0' },
      'node_modules/for-another-machine': { version: '2.0.0', optional: true },
    },
  };
  const a = { version: '1.0.0' };

  it('is content with what the lockfile asks of this machine', () => {
    expect(isInstalled(lockfile, { packages: { 'node_modules/a': a } })).toBe(true);
  });

  it.each([
    ['nothing is installed', undefined],
    ['a package is missing', { packages: {} }],
    ['a package is another version', { packages: { 'node_modules/a': { version: '1.0.1' } } }],
    [
      'an optional package is another version',
      {
        packages: { 'node_modules/a': a, 'node_modules/for-another-machine': { version: '1.9.0' } },
      },
    ],
  ])('is not when %s', (_, installed) => {
    expect(isInstalled(lockfile, installed)).toBe(false);
  });
});

const requirements = readFileSync(join(root, 'python/requirements-test.txt'), 'utf8');
const pins = parsePins(requirements);

describe('what the tests in Python run on', () => {
  it('is pinned to the version, all of it', () => {
    expect(Object.keys(pins)).toEqual(
      expect.arrayContaining(['torch', 'torchvision', 'transformers', 'peft']),
    );
    for (const version of Object.values(pins)) expect(version).toMatch(/^\d+\.\d+\.\d+$/);
  });

  it('tells what another environment lacks; a build for another CUDA will do', () => {
    expect(lacking(pins, { ...pins, torch: `${pins['torch']}+cu128` })).toEqual([]);
    expect(lacking(pins, { ...pins, torch: '2.10.0', peft: undefined })).toEqual([
      `torch ${pins['torch']} (has 2.10.0)`,
      `peft ${pins['peft']} (has none)`,
    ]);
  });

  it.each([
    ['3.9.18', false],
    ['3.10.0', true],
    ['3.14.2', true],
    ['3.15.0a1', false],
    ['2.7.18', false],
  ])('with Python %s: %s', (version, expected) => {
    expect(isSupported(version)).toBe(expected);
  });

  it('is made anew for other pins, another Python or another machine, and for nothing else', () => {
    const made = stampOf(requirements, '3.11.7', 'linux-x64');
    expect(stampOf(requirements, '3.11.9', 'linux-x64')).toBe(made);
    const others = [
      stampOf(`${requirements}numpy==2.4.6\n`, '3.11.7', 'linux-x64'),
      stampOf(requirements, '3.12.7', 'linux-x64'),
      stampOf(requirements, '3.11.7', 'linux-arm64'),
    ];
    expect(new Set([made, ...others]).size).toBe(4);
  });
});
