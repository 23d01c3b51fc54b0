import { spawn, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { judgeLeftovers, lastLine, untilIdle } from './support/closing.mjs';
import { Findings } from './support/findings.mjs';
import { childrenOf } from './support/leftovers.mjs';
import { command, killQuietly, Place, until } from './support/place.mjs';
import { Server } from './support/server.mjs';
import { Work } from './support/work.mjs';

// A command of the owner in a place, to its end.

/** The exit code; `never` where it did not end in that time. */
function runCommand(place, words, withinMs) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [command, ...words], {
      cwd: place.folder,
      env: place.environment(),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let [stdout, stderr] = ['', ''];
    child.stdout.on('data', (data) => {
      stdout += String(data);
    });
    child.stderr.on('data', (data) => {
      stderr += String(data);
    });
    let isLate = false;
    const timer = setTimeout(() => {
      isLate = true;
      child.kill('SIGKILL');
    }, withinMs);
    child.once('close', (code, signal) => {
      clearTimeout(timer);
      resolve({ code: isLate ? 'never' : (code ?? signal), stdout, stderr });
    });
  });
}

/** Of the home, and of the run of the job that goes on meanwhile. */
const files = [
  'RUN',
  'RUN/journal.jsonl',
  'RUN/attempt-1.keeper',
  'RUN/run.json',
  'RUN/supervisor-1',
  'RUN/attempt-1.pid',
  'RUN/sdk',
  'runs',
  'jobs/1',
  'jobs/1/log',
  'jobs.db',
  'token',
  'server.json',
  'jobs',
  'jobs.db-wal',
];
const oddities = {
  null: (path) => writeFileSync(path, 'null', { mode: 0o600 }),
  braces: (path) => writeFileSync(path, '{}\n', { mode: 0o600 }),
  empty: (path) => writeFileSync(path, '', { mode: 0o600 }),
  garbage: (path) => writeFileSync(path, Buffer.alloc(5000, '\u0000\u00ff{"\n'), { mode: 0o600 }),
  truncated,
  fifo: (path) => spawnSync('mkfifo', ['-m', '600', path]),
  folder: (path) => mkdirSync(path, { mode: 0o700 }),
  link: (path) => symlinkSync('nowhere', path),
  missing: () => {},
};
const cases = files.flatMap((file) => Object.keys(oddities).map((oddity) => ({ file, oddity })));
/** What a command may say of a damaged home: bad input, or something is missing. Never "a bug". */
const clearCodes = new Set([2, 3]);
/** A command or a job that needs longer is taken for one that hangs. */
const withinMs = 60_000;

/**
 * The server and its supervisor are killed, one file is damaged, everything is started again; then the
 * file is put back as it was. The job that ran meanwhile goes on and ends once, whatever is known of it.
 */
export const oddFiles = {
  name: 'odd-files',
  title: 'damaged and odd files in the home, one by one',
  times: { full: cases.length, small: 8 },
  async attack({ times, findings, owner, print }) {
    const step = cases.length / Math.min(times, cases.length);
    const chosen = cases.filter(
      (_, index) => Math.floor(index / step) > Math.floor((index - 1) / step),
    );
    const next = chosen.values();
    const lane = async (watcher) => {
      for (const one of next) await attackOne(one, { findings, print, owner: watcher });
    };
    // Most of a case is waiting for processes to start.
    await Promise.all([lane(owner), lane(noOwner), lane(noOwner)]);
  },
};

/** One owner watches one server at a time. */
const noOwner = { watch() {}, async pause() {} };

async function attackOne(one, { findings, print, owner }) {
  const found = new Findings();
  const place = new Place();
  try {
    await damageOne({ ...one, place, findings: found, owner });
  } catch (error) {
    found.wrong.push(error.message);
  } finally {
    await owner.pause();
    await place.close();
  }
  const where = `${one.file} as ${one.oddity}`;
  findings.add(found, where);
  print(`${where}: ${found.all.length === 0 ? 'held' : found.all.join('; ')}`);
}

async function damageOne({ file, oddity, place, findings, owner }) {
  const work = new Work(place);
  const first = new Server(place);
  if (!(await first.listens())) throw new Error(`it did not start: ${first.stderr}`);
  await work.submit(first, 0);
  await untilIdle(first, findings, withinMs);
  await work.submitGated(first);
  await until(() => work.begun().has('work-2'));
  const [supervisor] = childrenOf(first.pid);
  await first.kill();
  killQuietly(supervisor);

  const run = readdirSync(join(place.home, 'runs')).find((name) => name.endsWith('-job2'));
  const path = join(place.home, file.replace('RUN', `runs/${run}`));
  const kept = keepAside(path, place);
  oddities[oddity](path, kept);

  const second = new Server(place);
  const isUp = await second.listens(withinMs);
  if (!isUp) await judgeRefusal(second, findings);
  if (isUp) owner.watch(second);
  const commands = [['jobs'], ['run', '--', 'true'], ['logs', '1']];
  await Promise.all(commands.map((words) => judgeCommand(place, words, findings)));
  work.openGate();
  if (isUp) {
    // What a damaged file holds up is tried until it is back.
    await until(() => second.isIdle(), { everyMs: 200, withinMs: 10_000 });
    await owner.pause();
    await second.stop();
  }
  await until(() => work.done().has('work-2'), { withinMs });
  if (work.done().get('work-2') !== 1) findings.lost.push('the job that ran did not end');
  if (work.begun().get('work-2') !== 1) findings.doubled.push('the job that ran was started twice');

  putBack(path, kept);
  const third = new Server(place);
  if (!(await third.listens(withinMs))) {
    findings.lost.push(`with the file back it does not start: ${lastLine(third)}`);
    await third.kill();
    return;
  }
  await untilIdle(third, findings, withinMs);
  // What a damaged log of the database held is gone with it.
  if (file !== 'jobs.db-wal') {
    work.judge(await third.jobs(), findings, saysWhy);
  }
  await third.stop();
  // A folder that was moved away and put back is what it was when it was moved.
  const isMoved = (one) => ['runs', 'RUN'].includes(file) && one.startsWith('runs/');
  await judgeLeftovers(place, findings, isMoved);
}

/** Of the job whose run was damaged nobody may know how it ended; then it says so. */
function saysWhy({ id, reason }) {
  return id === '2' && reason !== '';
}

/** One clear error, or it serves; waiting for ever is neither. */
async function judgeRefusal(server, findings) {
  if (!server.hasEnded) {
    findings.wrong.push('the server neither listens nor ends');
    await server.kill();
    return;
  }
  const { code } = await server.ended;
  if (!clearCodes.has(code)) {
    findings.wrong.push(`the server ended with exit code ${code}: ${server.stderr.slice(0, 200)}`);
  }
}

async function judgeCommand(place, words, findings) {
  const { code, stderr } = await runCommand(place, words, withinMs);
  if (code !== 0 && !clearCodes.has(code)) {
    findings.wrong.push(
      `"plimsoll ${words.join(' ')}" ended with ${code}: ${stderr.slice(0, 200)}`,
    );
  }
}

/** The database and its log are one thing; everything else is moved alone. */
function keepAside(path, place) {
  const kept = join(place.folder, 'kept');
  mkdirSync(kept);
  const names = path.endsWith('jobs.db') ? ['', '-wal', '-shm'] : [''];
  for (const end of names) {
    if (existsSync(path + end)) renameSync(path + end, join(kept, `file${end}`));
  }
  return kept;
}

function putBack(path, kept) {
  if (!existsSync(join(kept, 'file'))) return;
  for (const name of readdirSync(kept)) {
    const target = path + name.slice('file'.length);
    rmSync(target, { recursive: true, force: true });
    mkdirSync(dirname(target), { recursive: true, mode: 0o700 });
    renameSync(join(kept, name), target);
  }
}

/** Cut in its first line; a folder loses all that it holds. */
function truncated(path, kept) {
  const whole = join(kept, 'file');
  if (!existsSync(whole)) return;
  if (statSync(whole).isDirectory()) {
    mkdirSync(path, { mode: 0o700 });
    return;
  }
  copyFileSync(whole, path);
  truncateSync(path, Math.min(60, Math.floor(statSync(whole).size / 2)));
}
