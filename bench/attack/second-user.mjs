import { spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { closeAndJudge } from './support/closing.mjs';
import { processesOf, readProc } from './support/leftovers.mjs';
import { command, until } from './support/place.mjs';
import { Server } from './support/server.mjs';
import { Work } from './support/work.mjs';

const program = fileURLToPath(new URL('./second-user-tries.mjs', import.meta.url));
/** An account that nobody has. */
const uid = 54_321;

/** Another account of this machine reads nothing of the owner's, and runs nothing as the owner. */
export const secondUser = {
  name: 'second-user',
  title: 'another local user: files, sockets, requests, signals, links in the way',
  times: { full: 20, small: 1 },
  async attack({ place, times, findings, owner }) {
    const asOther = ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups', '--'];
    if (spawnSync(asOther[0], [...asOther.slice(1), 'true']).status !== 0) {
      findings.notes.push('left out: only root may act as another user');
      return;
    }
    const work = new Work(place);
    // Models that all accounts of a machine share.
    const models = join(place.folder, 'models');
    mkdirSync(models);
    chmodSync(models, 0o777);
    const theirToken = tokenOfUser(place);
    const server = new Server(place, { environment: { HF_HOME: models } });
    if (!(await server.listens())) throw new Error(`it did not start: ${server.stderr}`);
    owner.watch(server);
    // The folder that the suite made is open to others, as a home in /srv may be; the home is not.
    chmodSync(place.folder, 0o755);
    const secret = `secret-${Math.random()}`;
    const env = { OWNERS_SECRET: secret };
    await work.submitGated(server, { env });
    await until(() => work.begun().has('work-1'));
    judgeArguments(place, [server.token, secret], findings);
    const theirs = mkdtempSync(join(tmpdir(), 'plimsoll-other-'));
    place.onClose(() => rmSync(theirs, { recursive: true, force: true }));
    chmodSync(theirs, 0o777);
    copyFileSync(program, join(theirs, 'tries.mjs'));
    for (let round = 0; round < times; round++) {
      const words = [
        join(theirs, 'tries.mjs'),
        server.url,
        place.home,
        String(server.pid),
        theirs,
        models,
      ];
      const argv = [...asOther.slice(1), process.execPath, ...words];
      const { status, stdout, stderr } = spawnSync(asOther[0], argv, {
        encoding: 'utf8',
        cwd: theirs,
        env: { PATH: process.env.PATH },
      });
      if (status !== 0) throw new Error(`the tries failed: ${stderr.slice(0, 300)}`);
      const { tried, got } = JSON.parse(stdout);
      findings.wrong.push(...got);
      if (round === 0) findings.notes.push(`${tried} tries a round`);
      if (stdout.includes(secret)) findings.wrong.push('it has the secret of a job');
      const estimate = await fetch(`${server.url}/estimate`, {
        method: 'POST',
        headers: { authorization: `Bearer ${theirToken}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'evil/link', batch: 1, seq: 64 }),
      });
      if ((await estimate.text()).includes(server.token.slice(0, 4))) {
        findings.wrong.push('a link in the models showed a file of the owner');
      }
      if (existsSync(join(theirs, 'ran'))) findings.wrong.push('it ran a command as the owner');
    }
    work.openGate();
    await closeAndJudge({ server, place, work, findings, owner });
  },
};

/** Of a user whose requests are made as an account that may read nothing of the owner's. */
function tokenOfUser(place) {
  const words = ['users', 'add', 'eve', '--role', 'user', '--account', 'nobody', '--json'];
  const { stdout, stderr } = spawnSync(process.execPath, [command, ...words], {
    env: place.environment(),
    encoding: 'utf8',
  });
  const [token] = /pu_[\w.-]+/.exec(stdout) ?? [];
  if (token === undefined) throw new Error(`no user was added: ${stderr}`);
  return token;
}

/** Everyone can read the arguments of every process. */
function judgeArguments(place, secrets, findings) {
  for (const pid of processesOf(place.folder)) {
    const words = readProc(pid, 'cmdline');
    if (secrets.some((secret) => words.includes(secret))) {
      findings.wrong.push(`a secret stands in the arguments of process ${pid}`);
    }
  }
}
