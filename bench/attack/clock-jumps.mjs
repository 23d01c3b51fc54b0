import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { closeAndJudge } from './support/closing.mjs';
import { until } from './support/place.mjs';
import { Server } from './support/server.mjs';
import { Work } from './support/work.mjs';

const source = fileURLToPath(new URL('./clock-shim.c', import.meta.url));
const [hour, day, year] = [3600, 86_400, 365 * 86_400];
const jumps = [hour, -hour, day, -day, 7 * day, -7 * day, 20 * year, -20 * year];
const waitSeconds = hour;

/** Jobs that may wait for an hour wait on, and begin, whatever the time of day becomes meanwhile. */
export const clockJumps = {
  name: 'clock-jumps',
  title: 'a clock that jumps by an hour to 20 years, forward and back, while jobs wait and run',
  times: { full: 64, small: 4 },
  async attack({ place, times, random, findings, owner }) {
    const shim = join(place.folder, 'clock-shim.so');
    const built = spawnSync('cc', ['-shared', '-fPIC', '-o', shim, source, '-ldl']);
    if (built.status !== 0) {
      findings.notes.push('left out: there is no C compiler (cc)');
      return;
    }
    const clock = join(place.folder, 'clock');
    let moved = 0;
    const move = (seconds) => {
      moved += seconds;
      const bytes = Buffer.alloc(8);
      bytes.writeBigInt64LE(BigInt(moved));
      // In place: programs have it mapped, and would not survive its being cut.
      writeFileSync(clock, bytes, { flag: 'r+' });
    };
    writeFileSync(clock, Buffer.alloc(8));
    const environment = { LD_PRELOAD: shim, ATTACK_CLOCK: clock, MAX_CONCURRENT_JOBS: '1' };
    const server = new Server(place, { environment });
    if (!(await server.listens())) throw new Error(`it did not start: ${server.stderr}`);
    owner.watch(server);
    const work = new Work(place);
    for (let number = 0; number < times; number++) {
      // Back to where it was every second time, so that it stays between 1990 and 2050.
      const jump = number % 2 === 0 ? random.pick(jumps) : -moved;
      for (let job = 0; job < 2; job++) {
        await work.submit(server, random.between(0.1, 0.6), { timeoutSeconds: waitSeconds });
      }
      await wait(random.between(0, 300));
      move(jump);
      await judgeClock(server, moved, findings);
      await until(async () => (await openJobs(server)) < 6, { everyMs: 100 });
    }
    await closeAndJudge({ server, place, work, findings, owner });
  },
};

async function openJobs(server) {
  const { document } = await server.ask('GET', '/jobs?limit=1');
  return document === undefined ? 0 : document.counts.waiting + document.counts.running;
}

/** That the jump reached the server, or the attack would prove nothing. */
async function judgeClock(server, moved, findings) {
  const body = {
    command: ['true'],
    memoryBytes: 2 ** 20,
    priority: -1,
    name: `clock-${Math.random()}`,
  };
  const { document } = await server.ask('POST', '/jobs', body);
  if (document === undefined) return;
  const seen = (Date.parse(document.submittedAt) - Date.now()) / 1000;
  if (Math.abs(seen - moved) > 600)
    findings.wrong.push(`the clock was moved by ${seen} s, not ${moved} s`);
  await server.ask('DELETE', `/jobs/${document.id}`);
}
