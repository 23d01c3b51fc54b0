import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { root } from '../support/project-files.js';
import { cleanEnvironment, useCommand } from './command.js';
import { openPty } from './pty.js';

const command = useCommand();
const names = ['devices', 'monitor', 'profile', 'oom', 'leak', 'replay', 'estimate', 'env'];

describe('help and version', () => {
  it('tells the version, and help on every command with an example', async () => {
    const { stdout, exitCode } = await command.run(['--version']);
    expect(stdout).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect(exitCode).toBe(0);
    const all = await command.run(['--help']);
    expect(all.stdout).toContain('Exit codes');
    for (const name of names) {
      expect(all.stdout).toContain(`\n  ${name} `);
      const help = await command.run([name, '--help']);
      expect(help.stdout).toMatch(new RegExp(`Examples?:\n  plimsoll ${name}`));
      expect(help.stdout).toContain('--json');
      expect(help).toMatchObject({ exitCode: 0, stderr: '' });
    }
    expect((await command.run(['help', 'leak'])).stdout).toContain('--pid');
  });

  it('shows sizes as people write them, and the exit code that a command really has', async () => {
    const leak = (await command.run(['leak', '--help'])).stdout;
    expect(leak).toContain('MiB (100)');
    expect(leak).not.toMatch(/\d{6}/);
    const all = (await command.run(['--help'])).stdout.replaceAll(/\s+/g, ' ');
    expect(all).toContain('1 no ("plan": nothing fits,');
    expect(all).toContain('"estimate" answers how much and exits with 0');
  });

  it('tells the same exit codes as docs/commands.md, and of 1 the same commands', async () => {
    const all = (await command.run(['--help'])).stdout.replaceAll(/\s+/g, ' ');
    const listed = all.slice(all.indexOf('Exit codes:'), all.indexOf('"estimate" answers'));
    const docs = readFileSync(join(root, 'docs/commands.md'), 'utf8');
    const rows = [...docs.matchAll(/^\| (\d+) \| (.*) \|$/gm)];
    const codes = [...listed.matchAll(/(?:: |; )(\d+) /g)].map(([, code]) => code);
    expect(new Set(codes)).toEqual(new Set(rows.map(([, code]) => code)));
    const [, , meaning = ''] = rows.find(([, code]) => code === '1') ?? [];
    const named = listed.slice(listed.indexOf('1 no ('), listed.indexOf('2 bad usage'));
    const documented = [...meaning.matchAll(/`([^`]+)`/g)].map(([, name]) => name);
    const inHelp = [...named.matchAll(/"([^"]+)"/g)].map(([, name]) => name);
    expect(new Set(inHelp)).toEqual(new Set(documented));
  });

  it('fits a terminal of 80 columns, but for commands to copy', async () => {
    const pty = openPty([process.execPath, command.path(), 'run', '--help'], {
      columns: 80,
      rows: 24,
      cwd: command.folder(),
    });
    const { output } = await pty.end;
    const wide = output.split(/\r?\n/).filter((line) => line.length > 80);
    expect(wide.filter((line) => !line.startsWith('  plimsoll run'))).toEqual([]);
    expect(output).toContain('PLIMSOLL_BATCH_SIZE');
  });

  it('answers a bare call with help on stderr and exit code 2', async () => {
    const { stdout, stderr, exitCode } = await command.run([]);
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
    expect(stderr).toContain('Usage: plimsoll');
  });
});

describe('bad usage is one line on stderr, nothing on stdout, exit code 2', () => {
  it.each([
    [['profil'], "bad-usage: Unknown command 'profil'. Did you mean profile?"],
    [['profile', '--intervl', '1'], "Unknown option '--intervl'. Did you mean --interval?"],
    [['devices', 'extra'], 'but got 1. Add --help to see its options and examples.'],
    [['plan', 'gpt2', '--memory', '24'], '--memory cannot be "24". Add a unit: 24GiB, or 24MiB.'],
    [
      ['plan', 'gpt2', '--memory', '24GiB', '--accumulation', '4'],
      'Leave it out, and give the effective batch, such as --batch 64:',
    ],
    [['profile', '--output', 'a.json', '--record', 'a.json'], '--output, too: name two files.'],
    [['profile', '--output'], "bad-usage: Option '--output <file>' argument missing."],
    [['replay'], "bad-usage: Missing required argument 'file'."],
    [
      ['profile', '--interval', '-1'],
      'bad-option: --interval cannot be "-1". It takes seconds from',
    ],
    [['profile', '--interval', '0.001'], 'bad-option: --interval cannot be "0.001".'],
    [['monitor', '--duration', 'soon'], 'bad-option: --duration cannot be "soon".'],
    [['oom', '--threshold', '200'], 'bad-option: --threshold cannot be "200".'],
    [['leak', '--threshold', 'much'], 'bad-option: --threshold cannot be "much".'],
    [['leak', '--pid', '0'], 'bad-option: --pid cannot be "0".'],
    [['devices', '--devices', 'gpu:77', '--json'], 'unknown-device: There is no device gpu:77;'],
    [['profile', '--devices', 'gpu:77', '--json'], 'Run "plimsoll devices" to see them.'],
    [['devices', '--simulate', 'nonsense'], 'unknown-scenario: There is no scenario "nonsense".'],
    [
      ['replay', 'none.json', '--json'],
      'The trace none.json cannot be read: there is no such file',
    ],
    [['profile', '--simulate', 'none.json'], 'no-file: The trace none.json cannot be read'],
    [
      ['estimate'],
      'bad-usage: No model was given. Name one, or a config.json, or a --script. For a program write: plimsoll estimate -- python train.py',
    ],
    [['plan'], 'For a program write: plimsoll plan --memory 24GiB -- python train.py'],
    [['estimate', 'resnet50'], 'Did you mean torchvision:resnet50?'],
    [['estimate', 'config.json', '--batch', '0'], 'bad-option: --batch cannot be "0".'],
    [['estimate', 'none.json', '--batch', '1', '--seq', '8'], 'none.json'],
    [['estimate', '--script', 'x.py', '--arg', '12'], 'bad-option: --arg cannot be "12".'],
    [['devices', '--config', 'none.json', '--json'], 'unreadable-config-file: '],
  ])('%j', async (argv, message) => {
    const { stdout, stderr, exitCode } = await command.run(argv);
    expect(stderr).toContain(message);
    expect(stderr).toMatch(/^plimsoll: [a-z-]+: [^\n]+\n$/);
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
  });

  it('shows where an error comes from only when asked', async () => {
    const { stderr } = await command.run(['replay', 'none.json', '--debug']);
    expect(stderr).toMatch(/^plimsoll: no-file: .*\n.*\n {4}at /);
    const variable = await command.run(['replay', 'none.json'], {
      environment: { PLIMSOLL_DEBUG: '1' },
    });
    expect(variable.stderr).toContain('\n    at ');
  });
});

describe('configuration', () => {
  it('names the place of a bad key or value in the file', async () => {
    const cwd = join(command.folder(), 'bad-config');
    mkdirSync(cwd);
    writeFileSync(join(cwd, 'plimsoll.config.json'), '{\n  "intervalSecond": 1\n}\n');
    const { stderr, stdout, exitCode } = await command.run(['devices', '--json'], { cwd });
    expect(stderr).toBe(
      'plimsoll: unknown-key: plimsoll.config.json:2:3: there is no key "intervalSecond". Did you mean "intervalSeconds"?\n',
    );
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
  });

  it.each([
    [
      'PLIMSOLL_INTERVAL_SECONDS',
      'fast',
      /bad-config-value: the variable PLIMSOLL_INTERVAL_SECONDS/,
    ],
    [
      'PLIMSOLL_INTERVALS',
      '1',
      /unknown-variable: The variable PLIMSOLL_INTERVALS is not a variable that/,
    ],
  ])('names the variable %s', async (name, value, message) => {
    const { stderr, exitCode } = await command.run(['devices'], { environment: { [name]: value } });
    expect(stderr).toMatch(message);
    expect(exitCode).toBe(2);
  });

  it('is used: a simulated device from a variable, another from an option', async () => {
    const environment = { PLIMSOLL_SIMULATE: 'leak' };
    const first = await command.run(['devices', '--json'], { environment });
    expect(JSON.parse(first.stdout).devices[0]).toMatchObject({ id: 'gpu:0', source: 'simulated' });
    const second = await command.run(['devices', '--json', '--simulate', 'full'], { environment });
    expect(JSON.parse(second.stdout).devices[0].name).toContain('full');
  });
});

describe('text that is not UTF-8', () => {
  /** A shell makes it: Node itself can pass on text alone. */
  function typed(line: string) {
    const home = join(command.folder(), 'untouched');
    const call = `'${process.execPath}' '${command.path()}' "$@"`;
    const script = `bad=$(printf 'caf\\351'); plimsoll() { ${call}; }; ${line}`;
    const ended = spawnSync('sh', ['-c', script], {
      cwd: command.folder(),
      env: cleanEnvironment({ PLIMSOLL_HOME: home, LC_ALL: 'C' }),
      encoding: 'utf8',
    });
    return { ...ended, touched: existsSync(home) };
  }

  it.each([
    ['an argument of a program', 'plimsoll run -- echo "$bad"'],
    ['a path', 'plimsoll estimate "$bad/config.json"'],
    ['a variable that a program would get', 'export BAD="$bad"; plimsoll run -- true'],
    ['a variable that is sent with a job', 'export BAD="$bad"; plimsoll submit --env BAD -- true'],
    ['the current folder', 'mkdir -p "$bad"; cd "$bad"; plimsoll devices'],
  ])('is refused in %s, and nothing is done', (_, line) => {
    const { status, stderr, touched } = typed(line);
    expect(stderr).toContain('not-utf-8');
    expect({ status, touched }).toEqual({ status: 2, touched: false });
  });

  it('is no matter in a variable that is not passed on', () => {
    expect(typed('export BAD="$bad"; plimsoll devices').status).toBe(0);
  });
});
