import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { describe, expect, it } from 'vitest';
import { cleanEnvironment, killWhen, noAlertsOfHost, useCommand } from './command.js';
import { openPty, type Pty } from './pty.js';

const command = useCommand();

const enteredScreen = '\u001B[?1049h';
const leftScreen = '\u001B[?1049l';
const shownCursor = '\u001B[?25h';

function openMonitor(argv: readonly string[] = [], environment: Record<string, string> = {}): Pty {
  return openPty([process.execPath, command.path(), 'monitor', '--simulate', 'steady', ...argv], {
    columns: 100,
    rows: 30,
    cwd: command.folder(),
    environment,
  });
}

/** Nothing after it but what gives the terminal back. */
function expectLeft(output: string): void {
  expect(output.lastIndexOf(leftScreen)).toBeGreaterThan(output.lastIndexOf(enteredScreen));
  expect(output.lastIndexOf(shownCursor)).toBeGreaterThan(output.lastIndexOf('\u001B[?25l'));
}

describe('plimsoll monitor on a terminal', () => {
  it.each([
    ['Ctrl-C', '\u0003', 130],
    ['q', 'q', 0],
  ])('shows the devices and leaves the terminal clean on %s', async (_, key, exitCode) => {
    const pty = openMonitor();
    await pty.shows('gpu:0');
    await pty.shows('host');
    pty.send(key);
    const end = await pty.end;
    expect(end).toMatchObject({ exitCode, cooked: true });
    expect(end.output.startsWith(enteredScreen)).toBe(true);
    expectLeft(end.output);
  });

  it.each([
    ['SIGTERM', 15, 143],
    ['SIGHUP', 1, 129],
  ])('leaves the terminal clean on %s', async (_, signal, exitCode) => {
    const pty = openMonitor();
    await pty.shows('gpu:0');
    pty.signal(signal);
    const end = await pty.end;
    expect(end).toMatchObject({ exitCode, cooked: true });
    expectLeft(end.output);
  });

  it('leaves the terminal clean when its time is over', async () => {
    const end = await openMonitor(['--duration', '1']).end;
    expect(end).toMatchObject({ exitCode: 0, cooked: true });
    expectLeft(end.output);
  });

  it('draws anew in the new size when the terminal is resized', async () => {
    const pty = openMonitor();
    await pty.shows('\u001B[30;1H');
    pty.mark();
    pty.resize(60, 12);
    await pty.shows('\u001B[2J');
    await pty.shows('\u001B[12;1H');
    pty.send('q');
    const { output } = await pty.end;
    expect(output.slice(output.lastIndexOf('\u001B[2J'))).not.toContain('\u001B[13;1H');
  });

  it('ends when the terminal is closed', async () => {
    const pty = openMonitor();
    await pty.shows('gpu:0');
    pty.hangUp();
    // By the signal, which a shell would show as 129.
    expect(await pty.end).toMatchObject({ exitCode: -1 });
  });

  it('stops on Ctrl-Z and comes back with fg', async () => {
    const pty = openPty(['bash', '--norc', '--noprofile', '-i'], {
      columns: 100,
      rows: 30,
      cwd: command.folder(),
      environment: { NODE: process.execPath, COMMAND: command.path() },
    });
    await pty.shows(/[#$] $/);
    // In two parts, so that its echo is not taken for the prompt.
    pty.send("PS1='rea''dy> '\r");
    await pty.shows('ready> ');
    pty.send('"$NODE" "$COMMAND" monitor --simulate steady\r');
    await pty.shows('gpu:0');
    pty.mark();
    pty.send('\u001A');
    await pty.shows(/\[\?1049l.*Stopped.*ready> /s);
    pty.mark();
    pty.send('fg\r');
    await pty.shows(/\[\?1049h.*gpu:0/s);
    pty.mark();
    pty.send('q');
    await pty.shows(/\[\?1049l.*ready> /s);
    pty.send('exit\r');
    expect(await pty.end).toMatchObject({ exitCode: 0 });
  });

  it('has no colours with NO_COLOR', async () => {
    const pty = openMonitor([], { NO_COLOR: '1' });
    await pty.shows('host');
    pty.send('q');
    const { output } = await pty.end;
    // Only "back to normal" is left.
    const codes = output.split('\u001B').map((part) => /^\[[\d;]*m/.exec(part)?.[0] ?? '[0m');
    expect(codes.every((code) => code === '[0m')).toBe(true);
  });

  it('prints plain lines on a dumb terminal', async () => {
    const { output } = await openMonitor(['--once'], { TERM: 'dumb' }).end;
    expect(output).toMatch(/ gpu:0 .*simulated/);
    expect(output).not.toContain('\u001B');
  });
});

describe('the keys of plimsoll monitor, typed at a terminal', () => {
  it('show help, and come back', async () => {
    const pty = openMonitor();
    await pty.shows(' leave');
    pty.send('h');
    await pty.shows('all about the selected process');
    pty.mark();
    pty.send('\u001B');
    await pty.shows('Processes on all GPUs');
    pty.send('q');
    expect(await pty.end).toMatchObject({ exitCode: 0, cooked: true });
  });

  it('ask for the mouse, and give it back', async () => {
    const pty = openMonitor();
    await pty.shows('\u001B[?1006h');
    await pty.shows('MEMORY');
    pty.mark();
    pty.send('m');
    await pty.shows('\u001B[?1000l');
    pty.send('q');
    const { output, exitCode } = await pty.end;
    expectLeft(output);
    expect(exitCode).toBe(0);
  });

  it('choose a theme', async () => {
    const pty = openMonitor(['--theme', 'contrast']);
    await pty.shows('\u001B[1;38;5;51m');
    pty.send('q');
    await pty.end;
    const { exitCode, stderr } = await command.run(['monitor', '--once', '--theme', 'pink']);
    expect({ exitCode, stderr }).toEqual({
      exitCode: 2,
      stderr: expect.stringContaining('It takes terminal, light, contrast'),
    });
  });

  it('kill a real process after y, found by a filter, and not before', async () => {
    const victim = spawn('sleep', ['599.25'], { stdio: 'ignore' });
    const ended = once(victim, 'exit');
    try {
      await once(victim, 'spawn');
      const pty = openPty([process.execPath, command.path(), 'monitor', '--devices', 'host'], {
        columns: 120,
        rows: 30,
        cwd: command.folder(),
      });
      await pty.shows('Processes on host');
      pty.send('/');
      await pty.shows('Enter keeps');
      pty.send(`${victim.pid} sleep`);
      await pty.shows(new RegExp(`${victim.pid} .*sleep 599`));
      pty.mark();
      pty.send('\r');
      await pty.shows(' leave');
      pty.send('\u001B[B');
      await pty.shows(/>.{0,12}\d+ .*sleep 599/);
      pty.send('K');
      await pty.shows(`Kill (SIGKILL) ${victim.pid}`);
      pty.send('n');
      await pty.shows('Nothing was sent.');
      expect(victim.signalCode).toBeNull();
      pty.mark();
      pty.send('K');
      await pty.shows(`Kill (SIGKILL) ${victim.pid}`);
      pty.send('y');
      await pty.shows(`SIGKILL was sent to ${victim.pid}.`);
      expect(await ended).toEqual([null, 'SIGKILL']);
      pty.send('q');
      expect(await pty.end).toMatchObject({ exitCode: 0, cooked: true });
    } finally {
      victim.kill('SIGKILL');
    }
  });
});

describe('plimsoll monitor elsewhere', () => {
  it('prints one plain line for each device in each second', async () => {
    const argv = ['monitor', '--simulate', 'steady', '--duration', '1.5', '--interval', '0.05'];
    const environment = noAlertsOfHost;
    const { stdout, stderr, exitCode } = await command.run(argv, { environment });
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
    const lines = stdout.trimEnd().split('\n');
    expect(lines.every((line) => /^\d{4}-\S+Z (gpu:0|host) \d/.test(line))).toBe(true);
    const times = lines
      .filter((line) => line.includes(' gpu:0 '))
      .map((line) => Date.parse(line.split(' ')[0] ?? '') / 1000);
    expect(times).not.toEqual([]);
    // A line that comes late may be followed at once by that of the next second; a third comes later.
    const twoLinesOn = times.slice(2).map((time, at) => time - (times[at] ?? Number.NaN));
    expect(twoLinesOn.every((seconds) => seconds > 0.95)).toBe(true);
  });

  it('tells every process with --all', async () => {
    const line = / host process \d+ .* node$/m;
    const { stdout, exitCode } = await command.run(['monitor', '--all'], {
      onOutput: killWhen((soFar) => line.test(soFar.stdout), 'SIGINT'),
    });
    expect(stdout).toMatch(line);
    expect(exitCode).toBe(130);
  });

  it('prints one document at the end with --json', async () => {
    const { stdout } = await command.run(['monitor', '--duration', '0.3', '--json']);
    expect(JSON.parse(stdout)).toHaveProperty('devices.host.currentUsage');
  });

  it('ends quietly when its reader leaves', () => {
    const { stdout, stderr } = spawnSync(
      'bash',
      [
        '-c',
        '"$0" "$1" monitor --simulate steady | head -1; echo "exit codes ${PIPESTATUS[*]}"',
        process.execPath,
        command.path(),
      ],
      { env: cleanEnvironment(noAlertsOfHost), encoding: 'utf8' },
    );
    expect(stderr).toBe('');
    expect(stdout).toMatch(/^\S+ gpu:0 .*\nexit codes 0 0\n$/);
  });
});
