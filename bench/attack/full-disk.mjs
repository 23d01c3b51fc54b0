import { closeSync, openSync, rmSync, statfsSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { closeAndJudge, lastLine } from './support/closing.mjs';
import { until } from './support/place.mjs';
import { Server } from './support/server.mjs';
import { Work } from './support/work.mjs';

const diskMegabytes = 48;

/** What cannot be kept is refused, what was acknowledged stays, and a job that runs can be cancelled. */
export const fullDisk = {
  name: 'full-disk',
  title: 'a disk that runs full under the server, half the time with kill -9 while it is full',
  times: { full: 30, small: 2 },
  async attack({ place, times, random, findings, owner }) {
    if (!place.mountSmallHome(diskMegabytes)) {
      findings.notes.push('left out: this user may not mount a small disk');
      return;
    }
    const work = new Work(place);
    let server = new Server(place);
    if (!(await server.listens())) throw new Error(`it did not start: ${server.stderr}`);
    for (let round = 0; round < times; round++) {
      owner.watch(server);
      await work.submit(server, random.between(0.1, 1));
      const long = await startLong(server, findings);
      const unfill = fill(place.home, random.between(0, 40_000));
      for (let job = 0; job < 3; job++) await work.submit(server, 0);
      await judgeCancel(server, long, findings);
      if (random.chance(0.5)) {
        await owner.pause();
        await server.kill();
        server = await startFull(place, findings);
        unfill();
        if (server === undefined) server = new Server(place);
        if (!(await server.listens())) throw new Error(`with room again: ${lastLine(server)}`);
        owner.watch(server);
      } else {
        await wait(random.between(0, 500));
        unfill();
      }
      await judgeRecovery(server, findings);
      // One that was refused is asked for again: the next round needs the room.
      if (long !== undefined) await server.ask('DELETE', `/jobs/${long}`);
      await work.sendAgain(server);
      await until(() => server.isIdle(), { everyMs: 100 });
      await owner.pause();
    }
    owner.watch(server);
    findings.notes.push(`${work.acknowledged.size} jobs acknowledged`);
    await closeAndJudge({ server, place, work, findings, owner });
  },
};

async function startLong(server, findings) {
  const body = { command: ['sleep', '300'], memoryBytes: 32 * 2 ** 20 };
  const { status, document } = await server.ask('POST', '/jobs', body);
  if (status !== 201) {
    findings.wrong.push(`with room a job is answered with ${status}`);
    return undefined;
  }
  const path = `/jobs/${document.id}`;
  await until(async () => (await server.ask('GET', path)).document?.currentAttempt !== null);
  return document.id;
}

async function judgeCancel(server, id, findings) {
  if (id === undefined) return;
  const { status } = await server.ask('DELETE', `/jobs/${id}`);
  if (status !== 200) findings.wrong.push(`on a full disk a cancel is answered with ${status}`);
}

/** On a full disk it may refuse to start, with a reason. */
async function startFull(place, findings) {
  const server = new Server(place);
  if (await server.listens(60_000)) return server;
  if (!server.hasEnded) await server.kill();
  const { code } = await server.ended;
  if (![2, 3].includes(code)) {
    findings.wrong.push(
      `on a full disk it ended with exit code ${code}: ${server.stderr.slice(0, 200)}`,
    );
  }
  return undefined;
}

async function judgeRecovery(server, findings) {
  const isWell = async () => (await server.ask('GET', '/healthz')).status === 200;
  if (!(await until(isWell, { everyMs: 100, withinMs: 60_000 }))) {
    findings.wrong.push('with room again /healthz does not become 200');
  }
}

/** Takes all but so many bytes; the answer gives them back. */
function fill(home, leaveBytes) {
  const path = join(home, 'filler');
  const { bavail, bsize } = statfsSync(home);
  const descriptor = openSync(path, 'w');
  try {
    for (let left = bavail * bsize - leaveBytes; left > 0; left -= bsize) {
      writeSync(descriptor, Buffer.alloc(Math.min(bsize, left), 'x'));
    }
  } catch (error) {
    if (error.code !== 'ENOSPC') throw error;
  } finally {
    closeSync(descriptor);
  }
  return () => rmSync(path, { force: true });
}
