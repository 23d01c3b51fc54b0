// The frame of all attacks over the network: a server with work under way, hostile connections, and a
// look at what is left of them.
import { closeAndJudge } from './closing.mjs';
import { judgeService, judgeSockets } from './hostile-sockets.mjs';
import { openFilesOf } from './leftovers.mjs';
import { Server } from './server.mjs';
import { Work } from './work.mjs';

export async function attackServer({ place, findings, owner }, attack) {
  const work = new Work(place);
  const server = new Server(place);
  if (!(await server.listens())) throw new Error(`it did not start: ${server.stderr}`);
  await work.submit(server, 1);
  const before = openFilesOf(server.pid);
  owner.watch(server);
  await attack(server);
  // Work that comes while nobody is let down.
  if (!(await work.submit(server, 0.1))) findings.wrong.push('a job of the owner was not taken');
  await judgeSockets(server, before, findings);
  await judgeService(server, findings);
  await closeAndJudge({ server, place, work, findings, owner });
}
