import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { closeAndJudge } from './support/closing.mjs';
import { isMarked } from './support/leftovers.mjs';
import { killQuietly } from './support/place.mjs';
import { Server } from './support/server.mjs';
import { Work } from './support/work.mjs';

const launchMs = 500;
const jobsAtOnce = 4;
const jobSeconds = 1.5;

/** A job that was killed has failed, once, and says by which signal. */
export const killJob = {
  name: 'kill-job',
  title: 'kill -9 of jobs, half of them in the first 500 ms of a launch',
  times: { full: 300, small: 6 },
  async attack({ place, times, random, findings, owner }) {
    const work = new Work(place);
    const server = new Server(place, { environment: { MAX_CONCURRENT_JOBS: String(jobsAtOnce) } });
    if (!(await server.listens())) throw new Error(`it did not start: ${server.stderr}`);
    owner.watch(server);
    const killed = new Set();
    const seen = new Set();
    let planned = 0;
    const killLater = async (run, pid) => {
      await wait(random.chance(1 / 2) ? random.between(0, launchMs) : random.between(0, 1500));
      // Its number may be another process's by now.
      if (isMarked(pid, place.folder) && killQuietly(pid)) killed.add(/job(\d+)$/.exec(run)?.[1]);
      planned -= 1;
    };
    const running = new Set();
    while (killed.size < times) {
      while (running.size < jobsAtOnce && killed.size + planned < times) {
        const name = await work.submit(server, jobSeconds);
        if (!name) throw new Error('a job was not taken');
        running.add([...work.acknowledged.values()].at(-1));
      }
      for (let look = 0; look < 20; look++) {
        for (const run of runsOf(place.home)) {
          if (seen.has(run)) continue;
          const pid = Number(await textOf(join(place.home, 'runs', run, 'attempt-1.pid')));
          if (!(pid > 0)) continue;
          seen.add(run);
          if (killed.size + planned >= times) continue;
          planned += 1;
          void killLater(run, pid);
        }
        await wait(5);
      }
      const { document } = await server.ask('GET', '/jobs?state=waiting,running');
      const open = new Set(document?.jobs.map(({ id }) => id));
      for (const id of running) if (!open.has(id)) running.delete(id);
    }
    await closeAndJudge({
      server,
      place,
      work,
      findings,
      owner,
      mayFail: (job) => isKilled(job, killed),
    });
    findings.notes.push(`${work.acknowledged.size} jobs`);
  },
};

/** One that was killed on its last instruction may have succeeded; then it is judged as any other. */
function isKilled({ id, state, reasonDetails, attempts }, killed) {
  const isSigkill = reasonDetails?.signal === 'SIGKILL';
  return killed.has(id) && state === 'failed' && attempts.length === 1 && isSigkill;
}

function runsOf(home) {
  try {
    return readdirSync(join(home, 'runs'));
  } catch {
    return [];
  }
}

async function textOf(path) {
  try {
    return await readFile(path, 'utf8');
  } catch {
    return '';
  }
}
