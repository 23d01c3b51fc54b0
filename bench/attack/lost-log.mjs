import { copyFileSync, existsSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { closeAndJudge } from './support/closing.mjs';
import { Place } from './support/place.mjs';
import { Server } from './support/server.mjs';
import { Work } from './support/work.mjs';

/** Jobs that started are known again, an id is given once, and the server says that it forgot jobs. */
export const lostLog = {
  name: 'lost-log',
  title: 'the write-ahead log of the store is deleted, or emptied, after kill -9',
  times: { full: 20, small: 2 },
  async attack({ times, findings, owner }) {
    for (let round = 0; round < times; round++) {
      const place = new Place();
      try {
        await loseLog(place, round % 2 === 0, findings, owner);
      } finally {
        await owner.pause();
        await place.close();
      }
    }
  },
};

async function loseLog(place, wholly, findings, owner) {
  const work = new Work(place);
  const first = new Server(place);
  if (!(await first.listens())) {
    findings.wrong.push('it did not start');
    return;
  }
  await work.submit(first, 0);
  await work.submitGated(first);
  const started = async () => (await first.jobs()).every(({ state }) => state !== 'waiting');
  while (!(await started()) || work.begun().size < 2);
  await first.kill();
  const log = join(place.home, 'jobs.db-wal');
  if (!existsSync(log)) {
    findings.wrong.push('there is no write-ahead log');
    return;
  }
  if (wholly) rmSync(log);
  else copyFileSync('/dev/null', log);
  const second = new Server(place);
  if (!(await second.listens())) {
    findings.wrong.push(`it did not start again: ${second.stderr.slice(0, 300)}`);
    return;
  }
  owner.watch(second);
  if (!second.stderr.includes('is older than the files beside it')) {
    findings.wrong.push(`it did not say that it forgot jobs: ${second.stderr.slice(0, 300)}`);
  }
  await work.submit(second, 0);
  work.openGate();
  if (new Set(work.acknowledged.values()).size !== work.acknowledged.size) {
    findings.doubled.push(`an id was given twice: ${[...work.acknowledged.values()].join(', ')}`);
  }
  await closeAndJudge({ server: second, place, work, findings, owner });
}
