import { copyFileSync, existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { closeAndJudge } from './support/closing.mjs';
import { Place } from './support/place.mjs';
import { Server } from './support/server.mjs';
import { Work } from './support/work.mjs';

/** Jobs that started are known again, an id is given once, and the server says that it forgot jobs. */
export const lostLog = {
  name: 'lost-log',
  title:
    'the write-ahead log of the store is deleted or emptied, or an older copy put back, after kill -9',
  times: { full: 21, small: 3 },
  async attack({ times, findings, owner }) {
    for (let round = 0; round < times; round++) {
      const place = new Place();
      try {
        await loseLog(place, losses[round % losses.length], findings, owner);
      } finally {
        await owner.pause();
        await place.close();
      }
    }
  },
};

/** What the owner, or a disk, does to the store of a server that ended. */
const losses = [
  ({ log }) => rmSync(log),
  ({ log }) => copyFileSync('/dev/null', log),
  // As a backup is put back.
  ({ log, store, copy }) => {
    renameSync(copy, store);
    rmSync(log);
  },
];

async function loseLog(place, lose, findings, owner) {
  const work = new Work(place);
  const store = join(place.home, 'jobs.db');
  const files = { log: `${store}-wal`, store, copy: join(place.folder, 'backup.db') };
  const earlier = new Server(place);
  if (!(await earlier.listens())) throw new Error(`it did not start: ${earlier.stderr}`);
  await earlier.stop();
  copyFileSync(store, files.copy);
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
  if (!existsSync(files.log)) {
    findings.wrong.push('there is no write-ahead log');
    return;
  }
  lose(files);
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
