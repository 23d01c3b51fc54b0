import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { cleanEnvironment, useCommand } from '../../../../test/cli/command.js';
import { endAllWith, livingWith, runIds, until } from '../../../../test/run/running.js';
import { type Discovery, discoverDevices } from '../../../device/discover.js';
import type { LocalEngineOptions } from '../../../engine/local/local-engine.js';
import { lateLogLimit } from '../../../run/log/log-limit.js';
import { killQuietly } from '../../../run/processes/end-tree.js';
import { RunFolder } from '../../../run/store/run-folder.js';
import { supervisorOf } from '../../../run/store/supervisor-lock.js';
import { MiB } from '../../../units/bytes.js';
import { openRealDaemon } from '../real-daemon-for-tests.js';
import type { Daemon } from '../types.js';

const logLimit = { bytes: 4 * MiB, firstBytes: MiB };
/** Of the file system, for a few blocks of its own. */
const slackBytes = 64 * 1024;
const lineBytes = 64;

const command = useCommand();
let folder: string;
let discovery: Discovery;
let daemon: Daemon;
const home = () => join(folder, 'home');
const logFile = (id: string) => join(home(), 'jobs', id, 'log');

function open(more: Partial<LocalEngineOptions> = {}): Promise<Daemon> {
  const environment = cleanEnvironment({ TEST_MARK: folder });
  const engine = { logLimit, ...more };
  return openRealDaemon({ folder, command: command.path(), discovery, environment, engine });
}

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-loud-'));
  discovery = await discoverDevices();
  daemon = await open();
});
afterEach(async () => {
  await daemon.close();
  discovery.close();
  await endAllWith(`TEST_MARK=${folder}`);
  rmSync(folder, { recursive: true, force: true });
});

const gateFile = (mib: number) => join(folder, `gate-${mib}`);

/**
 * Prints so many MiB in numbered lines, and fails if a single write does. It goes past each of `gates`, in
 * MiB, once its file is there.
 */
function loud(mib: number, pauseMs = 0, gates: readonly number[] = []): readonly string[] {
  const files = gates.map((gate) => [(gate * MiB) / lineBytes, gateFile(gate)]);
  const path = join(folder, 'loud.mjs');
  writeFileSync(
    path,
    `import { existsSync, writeSync } from 'node:fs';
     const per = 1024;
     const gates = ${JSON.stringify(files)};
     const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
     for (let first = 0; first < ${(mib * MiB) / lineBytes}; first += per) {
       let text = '';
       for (let at = 0; at < per; at++) text += String(first + at).padStart(${lineBytes - 1}, '.') + '\\n';
       for (let bytes = Buffer.from(text); bytes.length > 0; ) bytes = bytes.subarray(writeSync(1, bytes));
       if (${pauseMs} > 0) await pause(${pauseMs});
       for (const [line, file] of gates) while (first >= line && !existsSync(file)) await pause(10);
     }`,
  );
  return [process.execPath, path];
}

async function ended(id: string): Promise<void> {
  await until(() => (daemon.job(id).endedAt === null ? undefined : true));
  expect(daemon.job(id)).toMatchObject({ state: 'succeeded', attempts: [{ exitCode: 0 }] });
  // The supervisor sums up, and looks at the log a last time.
  await until(() => (livingWith(`TEST_MARK=${folder}`).length === 0 ? true : undefined));
}

/** All that can be read, as a client would, each part at its place. */
async function readAll(
  id: string,
  most = MiB,
): Promise<readonly { readonly at: number; readonly text: string; readonly next: number }[]> {
  const parts: { at: number; text: string; next: number }[] = [];
  for (let at = 0; ; ) {
    const { bytes, next } = await daemon.readLog(id, at, most);
    if (next === at) return parts;
    parts.push({ at, text: Buffer.from(bytes).toString(), next });
    at = next;
  }
}

function numbersIn(text: string): readonly number[] {
  return [...text.matchAll(/^\.+(\d+)$/gm)].map(([, number]) => Number(number));
}

const note = /^plimsoll: (\d+) bytes of this log were dropped here \((\d+) to (\d+)\)/m;
const isRising = (numbers: readonly number[]) =>
  numbers.every((number, index) => index === 0 || number === (numbers[index - 1] ?? 0) + 1);

/** The beginning and the end are there, line by line, and one note says what is not. */
async function expectBounded(id: string, mib: number): Promise<void> {
  const parts = await readAll(id);
  const text = parts.map((part) => part.text).join('');
  const [line = '', bytes, from, to] = note.exec(text) ?? [];
  expect(text.split(line).length).toBe(2);
  expect(Number(bytes)).toBe(Number(to) - Number(from));
  const [head = '', tail = ''] = text.split(line);
  const [first, last] = [numbersIn(head), numbersIn(tail)];
  expect([first[0], first.at(-1)]).toEqual([0, Number(from) / lineBytes - 1]);
  expect([last[0], last.at(-1)]).toEqual([Number(to) / lineBytes, (mib * MiB) / lineBytes - 1]);
  expect([isRising(first), isRising(last)]).toEqual([true, true]);
  expect(first.length * lineBytes).toBe(logLimit.firstBytes);
  expect(text).not.toContain('\0');
  expect(daemon.job(id).log.bytes).toBeGreaterThanOrEqual(mib * MiB);
  expect(statSync(logFile(id)).blocks * 512).toBeLessThanOrEqual(logLimit.bytes + slackBytes);
}

async function supervisorPid(): Promise<number> {
  const [run = ''] = runIds(home());
  return await until(() => supervisorOf(new RunFolder(home(), run).path, '/proc'));
}

describe('a job that prints more than its log may hold', () => {
  it('ends well; its log keeps the first and the newest lines, at their offsets', async () => {
    const { id } = await daemon.submit({ command: loud(40), memoryBytes: 2048 * MiB });
    await ended(id);
    await expectBounded(id, 40);
    // A reader that comes back with its offset reads on exactly there, or behind the hole.
    const whole = (await readAll(id, 100_003)).filter(({ text }) => !note.test(text));
    expect(whole.length).toBeGreaterThan(30);
    for (const { at, text, next } of whole) {
      expect(next).toBe(at + text.length);
      const { bytes } = await daemon.readLog(id, at + 37, 500);
      const read = Buffer.from(bytes).toString();
      expect(read.startsWith(text.slice(37, 537))).toBe(true);
    }
    const inHole = await daemon.readLog(id, 20 * MiB + 7, 1000);
    expect(Buffer.from(inHole.bytes).toString()).toMatch(note);
    expect(inHole.next).toBeGreaterThan(36 * MiB);
  });

  it('is bounded the same when its supervisor is killed in the middle, again and again', async () => {
    const hold = join(folder, 'hold');
    const wait = `while [ -e '${hold}' ]; do sleep 0.05; done; exec "$@"`;
    await daemon.close();
    daemon = await open({ command: ['sh', '-c', wait, 'sh', process.execPath, command.path()] });
    // It prints on after each kill, and not to its end before the next supervisor is there.
    const kills = [
      [2, 7],
      [8, 19],
      [20, 39],
    ] as const;
    const gates = [...kills.map(([, gate]) => gate), 22];
    const { id } = await daemon.submit({ command: loud(40, 5, gates), memoryBytes: 2048 * MiB });
    const lateSize = () => {
      const [run = ''] = runIds(home());
      const late = new RunFolder(home(), run).attemptFiles(1).lateOutput('both');
      return statSync(late, { throwIfNoEntry: false });
    };
    for (const [mib, gate] of kills) {
      await until(() => (daemon.job(id).log.bytes > mib * MiB ? true : undefined));
      const pid = await supervisorPid();
      const isLast = gate === 39;
      if (isLast) writeFileSync(hold, '');
      process.kill(pid, 'SIGKILL');
      if (isLast) {
        // More than is kept for the next supervisor, which comes when all of that was printed.
        writeFileSync(gateFile(22), '');
        await until(() => ((lateSize()?.size ?? 0) > lateLogLimit.bytes ? true : undefined));
        rmSync(hold);
      }
      await until(async () => ((await supervisorPid()) === pid ? undefined : true));
      writeFileSync(gateFile(gate), '');
    }
    await ended(id);
    await expectKilledWell(id);
    // What is kept for the next supervisor has its limit, too.
    const late = lateSize();
    expect(late?.size).toBeGreaterThan(lateLogLimit.bytes);
    expect((late?.blocks ?? 0) * 512).toBeLessThanOrEqual(lateLogLimit.bytes + slackBytes);
  });

  it('has every line once, whenever its supervisor was killed', async () => {
    const jobs: { readonly id: string; readonly kib: number }[] = [];
    for (const kib of [0, 3, 64, 130, 333, 700, 1400, 2500]) {
      const { id } = await daemon.submit({ command: loud(3), memoryBytes: 512 * MiB });
      jobs.push({ id, kib });
    }
    await Promise.all(
      jobs.map(async ({ id, kib }) => {
        await until(() => (daemon.job(id).log.bytes > kib * 1024 ? true : undefined));
        const run = runIds(home()).find((name) => name.endsWith(`-job${id}`)) ?? '';
        const pid = supervisorOf(new RunFolder(home(), run).path, '/proc');
        // One that has ended meanwhile was too quick for us.
        if (pid !== undefined) killQuietly(pid, 'SIGKILL');
      }),
    );
    await until(() => (jobs.every(({ id }) => daemon.job(id).endedAt !== null) ? true : undefined));
    for (const { id } of jobs) {
      const text = (await readAll(id)).map((part) => part.text).join('');
      const numbers = numbersIn(text);
      expect([numbers.length, isRising(numbers), numbers[0]]).toEqual([
        (3 * MiB) / lineBytes,
        true,
        0,
      ]);
    }
  });

  it('is bounded while no daemon is there, and found by the next', async () => {
    const { id } = await daemon.submit({ command: loud(40, 5), memoryBytes: 2048 * MiB });
    await until(() => (daemon.job(id).log.bytes > 2 * MiB ? true : undefined));
    await daemon.close();
    await until(() => {
      const { size, blocks } = statSync(logFile(id));
      return size > 20 * MiB && blocks * 512 <= logLimit.bytes + slackBytes ? true : undefined;
    });
    daemon = await open();
    await ended(id);
    await expectBounded(id, 40);
    expect(daemon.job(id).log.bytes).toBe(40 * MiB);
  });

  /** A supervisor that is killed takes nothing along. */
  async function expectKilledWell(id: string): Promise<void> {
    const text = (await readAll(id)).map((part) => part.text).join('');
    const numbers = numbersIn(text);
    expect(
      numbers.every((number, index) => index === 0 || number > (numbers[index - 1] ?? 0)),
    ).toBe(true);
    expect([numbers[0], numbers.at(-1)]).toEqual([0, (40 * MiB) / lineBytes - 1]);
    expect(daemon.job(id).log.bytes).toBe(40 * MiB);
    expect(text.match(new RegExp(note, 'gm'))?.length).toBe(1);
    expect(text).not.toContain('\0');
    expect(statSync(logFile(id)).blocks * 512).toBeLessThanOrEqual(logLimit.bytes + slackBytes);
  }
});
