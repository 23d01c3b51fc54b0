import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { closeAndJudge, judgeLeftovers } from './support/closing.mjs';
import { processesOf, readProc } from './support/leftovers.mjs';
import { until } from './support/place.mjs';
import { Server } from './support/server.mjs';

const program = fileURLToPath(new URL('./fork-bomb.py', import.meta.url));
const bombSeconds = 60;
const kinds = ['chain', 'tree', 'hidden'];

/** A cancelled job is gone with all it started, before its own end would have come. */
export const forkBombs = {
  name: 'fork-bombs',
  title: 'cancelled fork bombs: chains, trees, double forks with a cleared environment',
  times: { full: 30, small: 3 },
  async attack({ place, times, random, findings, owner }) {
    const server = new Server(place);
    if (!(await server.listens())) throw new Error(`it did not start: ${server.stderr}`);
    owner.watch(server);
    for (let number = 0; number < times; number++) {
      await cancelBomb({ server, place, kind: kinds[number % kinds.length], random, findings });
    }
    await closeAndJudge({ server, place, findings, owner });
    await judgeLeftovers(place, findings);
  },
};

async function cancelBomb({ server, place, kind, random, findings }) {
  const bomb = [kind, String(bombSeconds), `${place.folder}/bomb`];
  const { status, document } = await server.ask('POST', '/jobs', {
    command: ['python3', program, ...bomb],
    memoryBytes: 256 * 2 ** 20,
  });
  if (status !== 201) {
    findings.wrong.push(`a job was answered with ${status}`);
    return;
  }
  const path = `/jobs/${document.id}`;
  const bombs = () =>
    processesOf(`${place.folder}/bomb`).filter((pid) => /fork-bomb/.test(readProc(pid, 'cmdline')));
  await until(() => bombs().length > 0);
  await wait(random.between(100, 1500));
  const cancelled = await server.ask('DELETE', path);
  if (![200, 409].includes(cancelled.status)) {
    findings.wrong.push(`cancelling was answered with ${cancelled.status}`);
  }
  let state;
  await until(
    async () => {
      state = (await server.ask('GET', path)).document?.state;
      return state !== 'running';
    },
    { everyMs: 100 },
  );
  // It is looked at once, right after the server has said that the job is over.
  const left = bombs();
  if (left.length > 0) findings.left.push(`${left.length} processes of a ${kind} that is ${state}`);
  const isOver = state === 'cancelled' || (kind === 'hidden' && state === 'succeeded');
  if (!isOver) findings.wrong.push(`a cancelled ${kind} is ${state}`);
}
