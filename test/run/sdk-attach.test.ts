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
    // The first and the last two in the words of a supervisor; those between in the program's own.
    expect(climbed).toEqual([
      ['smaller-microbatch', expect.stringMatching(/16 .*now 8\.$/)],
      ['give-back-cache', '8 samples fitted before; cached memory was given back'],
      ['smaller-microbatch', '8 samples do not fit; half of what failed'],
      ['smaller-microbatch', expect.stringMatching(/^[46] .*now [23]\.$/)],
      ['smaller-microbatch', expect.stringMatching(/^[23] .*now 1\.$/)],
    ]);
    // Rungs of the time without a supervisor stand where they were climbed.
    const times = attempt?.rungs.map(({ atSeconds }) => atSeconds) ?? [];
    expect(times).toEqual(times.toSorted((a, b) => a - b));
    // The most that it held, it held under the first.
    expect(attempt?.peakBytes).toBeGreaterThan(300 * 2 ** 20);
    expect(livingWith(`TEST_MARK=${folder}`)).toEqual([]);
  });
});
