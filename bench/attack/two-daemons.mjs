import { closeAndJudge, lastLine } from './support/closing.mjs';
import { Place } from './support/place.mjs';
import { Server } from './support/server.mjs';
import { Work } from './support/work.mjs';

/** One serves, the other says why it does not; what the first acknowledged is known after its death. */
export const twoDaemons = {
  name: 'two-daemons',
  title: 'two servers started at once on a fresh home',
  times: { full: 100, small: 3 },
  async attack({ times, findings, owner }) {
    for (let start = 0; start < times; start++) {
      const place = new Place();
      try {
        await startTwo(place, findings, owner);
      } finally {
        await owner.pause();
        await place.close();
      }
    }
  },
};

async function startTwo(place, findings, owner) {
  const servers = [new Server(place), new Server(place)];
  const areUp = await Promise.all(servers.map((server) => server.listens()));
  const up = servers.filter((_, index) => areUp[index]);
  if (up.length !== 1) findings.doubled.push(`${up.length} of two servers listen`);
  for (const server of servers.filter((_, index) => !areUp[index])) {
    const { code } = await server.ended;
    if (code === 0 || code === 70 || !/store-in-use/.test(server.stderr)) {
      findings.wrong.push(`the second ended with exit code ${code}: ${lastLine(server)}`);
    }
  }
  const work = new Work(place);
  for (const server of up) {
    for (let job = 0; job < 2; job++) {
      if (!(await work.submit(server, 0))) findings.wrong.push('a job was not taken');
    }
  }
  for (const server of up) await server.kill();
  const next = new Server(place);
  if (!(await next.listens())) {
    findings.wrong.push(`it did not start again: ${lastLine(next)}`);
    return;
  }
  owner.watch(next);
  await closeAndJudge({ server: next, place, work, findings, owner });
}
