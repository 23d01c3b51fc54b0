import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { type Ended, killWhen, useCommand } from './command.js';
import { openPty } from './pty.js';

const command = useCommand();
const traces = fileURLToPath(new URL('../../bench/truth/traces/', import.meta.url));
const MiB = 1024 ** 2;

/** A trace that leaks 76 MiB a second and would be full after 43 s. */
const leakingTrace = (name: string) => growingTrace(name, 8e6);

/** 40 s of a device whose memory grows by so many bytes each tenth of a second. */
function growingTrace(name: string, bytes: number): string {
  const rows = Array.from({ length: 400 }, (_, index) => {
    const grown = bytes * index;
    return [index / 10, 5e8 + grown, 6e8 + grown, 7e8 + grown];
  });
  const columns = ['seconds', 'allocated', 'reserved', 'device_used'];
  writeFileSync(join(command.folder(), name), JSON.stringify({ capacity: 4e9, columns, rows }));
  return name;
}

describe('plimsoll replay', () => {
  it('answers as the contract says', async () => {
    const { stdout, stderr, exitCode } = await command.run([
      'replay',
      join(traces, 'leak-linear-0.json'),
      '--json',
    ]);
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
    const { alarms, leak, cause } = JSON.parse(stdout);
    // The first alarm may have no expected time yet.
    expect(alarms.find(({ risk }: { risk: string }) => risk === 'high')).toEqual({
      atSeconds: expect.any(Number),
      risk: 'high',
      etaSeconds: expect.any(Number),
      lowSeconds: expect.any(Number),
      highSeconds: expect.any(Number),
    });
    expect(leak).toEqual({ found: true, bytesPerSecond: expect.any(Number) });
    expect(cause).toBe('leak');
  });

  it('reads what profile wrote', async () => {
    const profile = ['profile', '--simulate', 'leak', '--duration', '1.5', '--output', 'seen.json'];
    const result = await command.run([...profile, '--devices', '0', 'host', '--html', 'seen.html']);
    expect(result.stdout).toContain('Written to seen.json and seen.html.\n');
    const answer = await command.run(['replay', 'seen.json', '--json']);
    expect(answer).toMatchObject({ stderr: '', exitCode: 0 });
    expect(JSON.parse(answer.stdout)).toHaveProperty('alarms');
    const drawn = await command.run(['replay', 'seen.json', '--device', 'host']);
    expect(drawn.stdout).toMatch(/^host of the profile seen\.json\n/);
    const simulated = await command.run(['devices', '--simulate', './seen.json', '--json']);
    expect(JSON.parse(simulated.stdout).devices[0]).toMatchObject({ source: 'simulated' });
  });

  it('reads what profile --record wrote, every sample of it', async () => {
    const argv = ['profile', '--simulate', 'leak', '--duration', '1', '--devices', '0'];
    const recording = await command.run([...argv, '--record', 'trace.json']);
    expect(recording.stdout).toContain('Written to trace.json (gpu:0, for "plimsoll replay").');
    const trace = JSON.parse(readFileSync(join(command.folder(), 'trace.json'), 'utf8'));
    // How many that are is up to the machine.
    const samples = Number(/(\d+) samples? of/.exec(recording.stdout)?.[1]);
    expect(samples).toBeGreaterThan(0);
    expect(trace.rows).toHaveLength(samples);
    expect(trace.columns).toEqual(['seconds', 'device_used', 'allocated', 'reserved']);
    const answer = await command.run(['replay', 'trace.json', '--json']);
    expect(answer).toMatchObject({ stderr: '', exitCode: 0 });
    expect(JSON.parse(answer.stdout)).toHaveProperty('alarms');
  });

  it('draws it for people', async () => {
    const { stdout } = await command.run(['replay', join(traces, 'steady-0.json')]);
    expect(stdout).toContain('4.0 GiB │');
    expect(stdout).toContain('No leak was found.');
  });

  it.each([
    ['not JSON', '{"capacity": 1', 'it is not JSON'],
    ['no rows', '{"capacity":1,"columns":["seconds","allocated"],"rows":[]}', '"rows" is empty'],
    ['another document', '[1, 2]', 'it is not an object'],
  ])('says what is wrong with a trace that is %s', async (name, text, what) => {
    writeFileSync(join(command.folder(), `${name}.json`), text);
    const { stdout, stderr, exitCode } = await command.run(['replay', `${name}.json`, '--json']);
    expect(stderr).toContain(`plimsoll: bad-trace: ${name}.json is not a readable trace: ${what}`);
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
  });
});

describe('plimsoll oom', () => {
  it('answers 1 above the threshold and 0 below it', async () => {
    const look = ['oom', '--simulate', 'steady', '--devices', '0', '--duration', '0.3'];
    const below = await command.run([...look, '--threshold', '99']);
    expect(below).toMatchObject({ exitCode: 0, stderr: '' });
    expect(below.stdout).toMatch(/^gpu:0 {2}\d+\.\d % .*simulated/);
    const above = await command.run([...look, '--threshold', '10', '--json']);
    expect(above.exitCode).toBe(1);
    const answer = JSON.parse(above.stdout);
    expect(answer).toMatchObject({ thresholdPercent: 10, safe: false });
    expect(answer.devices[0]).toMatchObject({ id: 'gpu:0', aboveThreshold: true, atRisk: false });
  });

  it('ends with 130 when interrupted, with its document whole', async () => {
    const { stdout, exitCode } = await command.run(
      ['oom', '--monitor', '--simulate', 'full', '--devices', '0', '--json'],
      { onOutput: killWhen(({ stderr }) => stderr !== '', 'SIGINT') },
    );
    expect(exitCode).toBe(130);
    expect(JSON.parse(stdout).warnings[0]).toMatchObject({ deviceId: 'gpu:0', state: 'raised' });
  });
});

describe.concurrent('over a longer time', () => {
  it('warns while memory is filling up', async () => {
    const trace = leakingTrace('filling.json');
    const { stdout, exitCode } = await command.run(
      ['oom', '--simulate', trace, '--devices', '0', '--monitor', '--threshold', '95'],
      {
        onOutput: killWhen((soFar) => soFar.stdout.includes('Risk level: high'), 'SIGTERM'),
      },
    );
    expect(exitCode).toBe(143);
    expect(stdout).toMatch(
      /\[WARNING\] Out-of-memory warning: gpu:0 .*\n(.*\n)* {3}Predicted out of memory: in \d+ s/,
    );
  });

  it('finds a leak on a device', async () => {
    const argv = ['leak', '--check', '--threshold', '100', '--duration', '31', '--devices', '0'];
    const { stdout, exitCode } = await command.run([
      ...argv,
      '--simulate',
      leakingTrace('leaking.json'),
    ]);
    expect(stdout).toMatch(/^gpu:0 .* grows by 76\.\d MiB a second.* LEAK$/m);
    expect(exitCode).toBe(1);
  });

  it('finds none where memory is steady', async () => {
    // The same whenever it is read: on a busy machine readings come late, and far from one another.
    const trace = growingTrace('flat.json', 0);
    // 20 s have to be seen.
    const argv = ['leak', '--check', '--simulate', trace, '--devices', '0', '--duration', '40'];
    const { stdout, exitCode } = await command.run([...argv, '--json']);
    expect(JSON.parse(stdout)).toMatchObject({ found: false, thresholdBytes: 100 * MiB });
    expect(exitCode).toBe(0);
  });

  it('finds a leak in a real process', async () => {
    const program = 'const kept = []; setInterval(() => kept.push(Buffer.alloc(2 ** 22, 1)), 500)';
    const { stdout, exitCode } = await whileRunning(program, (pid) =>
      command.run(['leak', '--check', '--threshold', '50', '--duration', '40', '--pid', pid]),
    );
    expect(stdout).toMatch(/^host {2}process \d+ on .*: grows by .* LEAK$/m);
    // Who it is, and what to do next.
    expect(stdout).toMatch(/^ {4}a program of \S+.*: .*node.* -e const kept/m);
    expect(stdout).toMatch(/^ {4}next: Start it with --heapsnapshot-signal/m);
    expect(exitCode).toBe(1);
  });
});

describe('plimsoll leak --pid', () => {
  it('refuses a process that is not there', async () => {
    // Above the largest that Linux gives out.
    const { stderr, exitCode } = await command.run(['leak', '--check', '--pid', '4194305']);
    expect(stderr).toContain('plimsoll: unknown-process: There is no process 4194305.');
    expect(exitCode).toBe(2);
  });

  it('ends when the process does', async () => {
    const child = spawn('sleep', ['600'], { stdio: 'ignore' });
    const argv = ['leak', '--check', '--duration', '0', '--interval', '0.1', '--pid'];
    const pty = openPty([process.execPath, command.path(), ...argv, String(child.pid)], {
      columns: 120,
      rows: 20,
      cwd: command.folder(),
    });
    // What it has is shown: it is watched.
    await pty.shows(/host \d/);
    child.kill();
    const { output, exitCode } = await pty.end;
    expect(output).toContain(`plimsoll: Process ${child.pid} has ended.`);
    expect(output).toContain('Watched for');
    expect(exitCode).toBe(0);
  });
});

async function whileRunning(program: string, act: (pid: string) => Promise<Ended>): Promise<Ended> {
  const child = spawn(process.execPath, ['-e', program], { stdio: 'ignore' });
  try {
    return await act(String(child.pid));
  } finally {
    child.kill();
  }
}
