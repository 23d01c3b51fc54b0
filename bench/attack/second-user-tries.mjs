// What another user of the machine tries, as that user. Prints what it got that it should not have.
//   node second-user-tries.mjs URL HOME PID OWN-FOLDER MODELS
import { mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';

const [url, home, pid, own, models] = process.argv.slice(2);
const got = [];
let tried = 0;

function expectFailure(what, work) {
  tried += 1;
  try {
    work();
    got.push(what);
  } catch {
    // As it should be.
  }
}

async function expectRefusal(method, path, { body, headers = {} } = {}) {
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

expectFailure('it lists the home', () => readdirSync(home));
for (const name of ['token', 'server.json', 'jobs.db', 'jobs.db-wal', 'jobs/1/log', 'runs']) {
  expectFailure(`it reads ${name}`, () => readFileSync(join(home, name)));
  expectFailure(`it writes ${name}`, () => writeFileSync(join(home, name), 'x', { flag: 'a' }));
}
expectFailure('it puts a link into the home', () => symlinkSync('/etc/passwd', join(home, 'link')));
expectFailure("it reads the server's environment", () => readFileSync(`/proc/${pid}/environ`));
expectFailure("it reads the server's memory", () => readFileSync(`/proc/${pid}/mem`));
expectFailure('it signals the server', () => process.kill(Number(pid), 'SIGTERM'));
for (const name of readdirSync('/proc').filter((one) => /^\d+$/.test(one))) {
  expectFailure(`it reads the environment of process ${name}`, () => {
    if (!readFileSync(`/proc/${name}/environ`, 'latin1').includes(home)) throw new Error('not its');
  });
}

// A model that leads to the owner's token: the owner's server is asked for it afterwards.
const version = 'a'.repeat(40);
const planted = join(models, 'hub', 'models--evil--link');
rmSync(planted, { recursive: true, force: true });
for (const part of ['refs', `snapshots/${version}`])
  mkdirSync(join(planted, part), { recursive: true });
writeFileSync(join(planted, 'refs', 'main'), version);
symlinkSync(join(home, 'token'), join(planted, 'snapshots', version, 'config.json'));

const job = { command: ['touch', join(own, 'ran')], memoryBytes: 1024 * 1024 };
for (const headers of [
  {},
  { authorization: 'Bearer ' },
  { authorization: 'Bearer undefined' },
  { authorization: `Basic ${Buffer.from('root:').toString('base64')}` },
  { cookie: 'plimsoll=1; session=admin' },
  { 'x-forwarded-for': '127.0.0.1', 'x-real-ip': '127.0.0.1' },
]) {
  await expectRefusal('POST', '/jobs', { body: job, headers });
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
  await expectRefusal('GET', path);
}
await expectRefusal('DELETE', '/jobs/1');
await expectRefusal('POST', '/estimate', { body: { model: '/etc/passwd' } });
await expectRefusal('POST', '/plan', { body: { model: '/etc/passwd', memoryBytes: 1 } });

for (const path of ['runs/bridge.sock', 'server.sock']) {
  tried += 1;
  await new Promise((resolve) => {
    const socket = connect(join(home, path));
    socket.once('connect', () => {
      got.push(`it opens the socket ${path}`);
      resolve();
    });
    socket.once('error', resolve);
  });
}
console.log(JSON.stringify({ tried, got }));
