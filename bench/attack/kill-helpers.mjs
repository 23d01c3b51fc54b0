import { setTimeout as wait } from 'node:timers/promises';
import { closeAndJudge } from './support/closing.mjs';
import { processesOf, readProc } from './support/leftovers.mjs';
import { killQuietly } from './support/place.mjs';
import { Server } from './support/server.mjs';
import { Work } from './support/work.mjs';

const isHelper = /plimsoll-keeper|plimsoll-drainer|tee\0-a/;

/** Without its keeper nobody sees how a job ends, and it says so; but it goes on, and runs once. */
export const killHelpers = {
  name: 'kill-helpers',
  title: 'kill -9 of the small shells that stay with a job (keeper, drainer)',
  times: { full: 60, small: 3 },
  async attack({ place, times, random, findings, owner }) {
    const work = new Work(place);
    const server = new Server(place, { environment: { MAX_CONCURRENT_JOBS: '4' } });
    if (!(await server.listens())) throw new Error(`it did not start: ${server.stderr}`);
    owner.watch(server);
    let kills = 0;
    while (kills < times) {
      for (let job = 0; job < 3; job++) await work.submit(server, random.between(0.5, 1.5));
      while (!(await server.isIdle())) {
        const helpers = processesOf(place.folder).filter((pid) =>
          isHelper.test(readProc(pid, 'cmdline')),
        );
        const pid = random.pick(helpers);
        if (pid !== undefined && kills < times && killQuietly(pid)) kills += 1;
        await wait(random.between(50, 400));
      }
    }
    const [begun, done] = [work.begun(), work.done()];
    for (const name of begun.keys()) {
      if (done.get(name) !== 1) findings.lost.push(`${name} began and did not end`);
    }
    const isUnseen = ({ state, name }) => state === 'failed' && done.get(name) === 1;
    await closeAndJudge({ server, place, work, findings, owner, mayFail: isUnseen });
    findings.notes.push(`${work.acknowledged.size} jobs`);
  },
};
