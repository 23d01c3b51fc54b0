import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { RunReport } from '../../src/run/types.js';
import { cleanEnvironment, useCommand } from '../cli/command.js';
import { livingWith, runIds, textOf, until } from './running.js';

const command = useCommand();

/** Runs out of memory under one supervisor, alone, and under the next; waits for a word before each. */
const script = `
import os, time, plimsoll
from plimsoll.bridge import connection
most = [9]
@plimsoll.recovering
def work(batch):
    if len(batch) > most[0]:
        raise MemoryError()
    return list(batch)
def reached(name):
    open(name, "w").close()
def wait(name):
    while not os.path.exists(name):
        time.sleep(0.02)
line = connection.current()
held = bytearray(300 * 2**20)
for at in range(0, len(held), 4096):
    held[at] = 1
work(list(range(16)))
del held
work(list(range(16)))
reached("under-the-first")
while line.alive:
    time.sleep(0.02)
most[0] = 5
done = [work(list(range(16))) for _ in range(3)]
reached("alone")
while not line.alive:
    time.sleep(0.02)
most[0] = 1
done.append(work(list(range(16))))
assert done == [list(range(16))] * 4, done
`;

const smaller = 'smaller-microbatch';

/** `[[6, 3], [3, 2], [2, 1]]`: from 6 down to 1. */
function halvesOf(size: number): readonly (readonly [number, number])[] {
  const half = Math.ceil(size / 2);
  return size > 1 ? [[size, half], ...halvesOf(half)] : [];
}

describe('a Python program whose supervisor was killed', () => {
  it('goes on alone, finds the next one, and tells it where it stands', async () => {
    const folder = command.folder();
    const environment = { PLIMSOLL_HOME: join(folder, 'home'), TEST_MARK: folder };
    writeFileSync(join(folder, 'job.py'), script);
    const first = spawn(
      process.execPath,
      [command.path(), 'run', '--device', 'host', '--', 'python3', 'job.py'],
      { cwd: folder, env: cleanEnvironment(environment), stdio: 'ignore' },
    );
    const gone = new Promise((resolve) => first.once('close', resolve));
    await until(() => textOf(join(folder, 'under-the-first')));
    first.kill('SIGKILL');
    await gone;
    await until(() => textOf(join(folder, 'alone')));
    const { stdout } = await command.run(['run', '--attach', '--json'], { environment });
    const report: RunReport = JSON.parse(stdout);
    expect(report).toMatchObject({ id: runIds(environment.PLIMSOLL_HOME)[0], exitCode: 0 });
    const [attempt] = report.attempts;
    const climbed = (attempt?.rungs ?? [])
      .filter(({ rung }) => rung !== 'grow-back')
      .map(({ rung, why }) => [rung, why]);
    const [underTheFirst, cache, alone, ...underTheNext] = climbed;
    expect(underTheFirst).toEqual([smaller, expect.stringMatching(/16 .*now 8\.$/)]);
    // In the program's own words.
    expect(cache).toEqual([
      'give-back-cache',
      '8 samples fitted before; cached memory was given back',
    ]);
    expect(alone).toEqual([smaller, '8 samples do not fit; half of what failed']);
    // In the words of a supervisor: from what it had grown back to, by halves, down to one sample.
    const begun = /^([456]) /.exec(underTheNext[0]?.[1] ?? '');
    expect(underTheNext).toEqual(
      halvesOf(Number(begun?.[1])).map(([from, to]) => [
        smaller,
        `${from} did not fit, and no limit is known: half of it; now ${to}.`,
      ]),
    );
    // Rungs of the time without a supervisor stand where they were climbed.
    const times = attempt?.rungs.map(({ atSeconds }) => atSeconds) ?? [];
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    // The most that it held, it held under the first.
    expect(attempt?.peakBytes).toBeGreaterThan(300 * 2 ** 20);
    expect(livingWith(`TEST_MARK=${folder}`)).toEqual([]);
  });
});
