import { readdirSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { closeAndJudge } from './support/closing.mjs';
import { childrenOf, isMarked, processesOf, readProc } from './support/leftovers.mjs';
import { killQuietly } from './support/place.mjs';
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
