import { setTimeout as wait } from 'node:timers/promises';
import { closeAndJudge } from './support/closing.mjs';
import { childrenOf, readProc } from './support/leftovers.mjs';
import { killQuietly } from './support/place.mjs';
import { Server } from './support/server.mjs';
import { Work } from './support/work.mjs';

const launchMs = 500;
const jobsAtOnce = 4;
/** A supervisor that ends five times in a row before anything happens is given up, by design. */
const killsOfOneRun = 3;
const lookMs = 4;

/** Most kills fall into the first 500 ms of a launch, the others into the whole life of the job. */
export const killSupervisor = {
  name: 'kill-supervisor',
  title: 'kill -9 of supervisors, most of them in the first 500 ms of a launch',
  times: { full: 300, small: 6 },
  async attack({ place, times, random, findings, owner }) {
    const work = new Work(place);
    const server = new Server(place, { environment: { MAX_CONCURRENT_JOBS: String(jobsAtOnce) } });
    if (!(await server.listens())) throw new Error(`it did not start: ${server.stderr}`);
    owner.watch(server);
    const seen = new Set();
    const killed = new Map();
    const count = { kills: 0, planned: 0 };
    const killLater = async (pid) => {
      await wait(random.chance(2 / 3) ? random.between(0, launchMs) : random.between(0, 3000));
      const [, run] = /--attach\0([^\0]+)/.exec(readProc(pid, 'cmdline')) ?? [];
      const before = killed.get(run) ?? 0;
      if (run !== undefined && before < killsOfOneRun && killQuietly(pid)) {
        killed.set(run, before + 1);
        count.kills += 1;
      }
      count.planned -= 1;
    };
    while (count.kills < times) {
      if (await isShort(server)) await work.submit(server, random.between(0.2, 1.5));
      for (let look = 0; look < 25; look++) {
        for (const pid of childrenOf(server.pid)) {
          if (seen.has(pid)) continue;
          seen.add(pid);
          if (count.kills + count.planned >= times || !random.chance(0.8)) continue;
          count.planned += 1;
          void killLater(pid);
        }
        await wait(lookMs);
      }
    }
    findings.notes.push(`${work.acknowledged.size} jobs`);
    await closeAndJudge({ server, place, work, findings, owner });
  },
};

async function isShort(server) {
  const { document } = await server.ask('GET', '/jobs?limit=1');
  return document !== undefined && document.counts.waiting + document.counts.running < jobsAtOnce;
}
