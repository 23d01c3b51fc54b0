import { setTimeout as wait } from 'node:timers/promises';
import { closeAndJudge } from './support/closing.mjs';
import { Server } from './support/server.mjs';
import { Work } from './support/work.mjs';

const startMs = 500;
const servingMs = 800;
const jobsARound = 2;

/** A third of the kills fall into its own start, the others between its first answer and its jobs' ends. */
export const killDaemon = {
  name: 'kill-daemon',
  title: 'kill -9 of the server, while it starts and while jobs come, begin and end',
  times: { full: 300, small: 4 },
  async attack({ place, times, random, findings, owner }) {
    const work = new Work(place);
    const environment = { MAX_CONCURRENT_JOBS: '4' };
    for (let kill = 0; kill < times; kill++) {
      const server = new Server(place, { environment });
      if (random.chance(1 / 3)) {
        await wait(random.between(0, startMs));
      } else if (await server.listens()) {
        owner.watch(server);
        const dies = wait(random.between(0, servingMs));
        void submitAll(work, server, random);
        await dies;
      } else {
        findings.wrong.push(`it did not start: ${server.stderr.slice(0, 300)}`);
      }
      await owner.pause();
      await server.kill();
    }
    const last = new Server(place, { environment });
    if (!(await last.listens())) {
      findings.wrong.push(`it did not start: ${last.stderr.slice(0, 300)}`);
      return;
    }
    owner.watch(last);
    await work.sendAgain(last);
    findings.notes.push(`${work.acknowledged.size} jobs acknowledged`);
    await closeAndJudge({ server: last, place, work, findings, owner });
  },
};

/** What had no answer is sent again, as `plimsoll submit` does. */
async function submitAll(work, server, random) {
  await work.sendAgain(server);
  for (let job = 0; job < jobsARound; job++) await work.submit(server, random.between(0.05, 0.5));
}
