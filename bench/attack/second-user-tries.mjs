// What another user of the machine tries, as that user. Prints what it got that it should not have.
//   node second-user-tries.mjs URL HOME PID OWN-FOLDER
import { readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';

const [url, home, pid, own] = process.argv.slice(2);
const got = [];
let tried = 0;

function mustFail(what, work) {
  tried += 1;
  try {
    work();
    got.push(what);
  } catch {
    // As it should be.
  }
}

async function mustBeRefused(method, path, { body, headers = {} } = {}) {
  tried += 1;
  const json = body === undefined ? {} : { 'content-type': 'application/json' };
  const answer = await fetch(url + path, {
    method,
    headers: { ...json, ...headers },
    redirect: 'manual',
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  await answer.body?.cancel();
  if (answer.status < 400) got.push(`${method} ${path} was answered with ${answer.status}`);
}

mustFail('it lists the home', () => readdirSync(home));
for (const name of ['token', 'server.json', 'jobs.db', 'jobs.db-wal', 'jobs/1/log', 'runs']) {
  mustFail(`it reads ${name}`, () => readFileSync(join(home, name)));
  mustFail(`it writes ${name}`, () => writeFileSync(join(home, name), 'x', { flag: 'a' }));
}
mustFail('it puts a link into the home', () => symlinkSync('/etc/passwd', join(home, 'link')));
mustFail("it reads the server's environment", () => readFileSync(`/proc/${pid}/environ`));
mustFail("it reads the server's memory", () => readFileSync(`/proc/${pid}/mem`));
mustFail('it signals the server', () => process.kill(Number(pid), 'SIGTERM'));
for (const name of readdirSync('/proc').filter((one) => /^\d+$/.test(one))) {
  mustFail(`it reads the environment of process ${name}`, () => {
    if (!readFileSync(`/proc/${name}/environ`, 'latin1').includes(home)) throw new Error('not its');
  });
}

const job = { command: ['touch', join(own, 'ran')], memoryBytes: 1024 * 1024 };
for (const headers of [
  {},
  { authorization: 'Bearer ' },
  { authorization: 'Bearer undefined' },
  { authorization: `Basic ${Buffer.from('root:').toString('base64')}` },
  { cookie: 'plimsoll=1; session=admin' },
  { 'x-forwarded-for': '127.0.0.1', 'x-real-ip': '127.0.0.1' },
]) {
  await mustBeRefused('POST', '/jobs', { body: job, headers });
}
for (const path of [
  '/jobs',
  '/jobs/1',
  '/jobs/1/log',
  '/devices',
  '/workers/status',
  '/events',
  '/metrics',
]) {
  await mustBeRefused('GET', path);
}
await mustBeRefused('DELETE', '/jobs/1');
await mustBeRefused('POST', '/estimate', { body: { model: '/etc/passwd' } });
await mustBeRefused('POST', '/plan', { body: { model: '/etc/passwd', memoryBytes: 1 } });

tried += 1;
await new Promise((resolve) => {
  const socket = connect(join(home, 'runs', 'bridge.sock'));
  socket.once('connect', () => {
    got.push('it opens the socket of a run');
    resolve();
  });
  socket.once('error', resolve);
});
console.log(JSON.stringify({ tried, got }));
