import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../steps.mjs';

/** A server with a simulated GPU, in a home of its own below the folder. */
export async function startServer(folder) {
  const home = join(folder, 'home');
  const project = join(folder, 'project');
  const config = JSON.stringify({ simulate: 'steady' });
  writeFileSync(join(project, 'plimsoll.config.json'), config);
  const argv = [join(root, 'bin/plimsoll.js'), 'serve', '--port', '0', '--json'];
  const child = spawn(process.execPath, argv, {
    cwd: project,
    env: { PATH: process.env.PATH, HOME: folder, PLIMSOLL_HOME: home },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const { url } = JSON.parse(await firstLine(child));
  const token = readFileSync(join(home, 'token'), 'utf8').trim();
  const ask = async (path, init = {}) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
    const answer = await fetch(url + path, { ...init, headers });
    if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
    return answer;
  };
  const json = async (path, init) => (await ask(path, init)).json();
  return {
    url,
    project,
    ask,
    json,
    /** A link that signs one browser in, to a page of the dashboard. */
    async link() {
      const { path } = await json('/session/link', { method: 'POST', body: '{}' });
      return url + path;
    },
    async close() {
      const { jobs } = await json('/jobs?state=waiting,running');
      await Promise.all(jobs.map(({ id }) => ask(`/jobs/${id}`, { method: 'DELETE' })));
      await until(async () => (await json('/jobs?state=waiting,running')).jobs.length === 0);
      const ended = new Promise((resolve) => child.once('close', resolve));
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** Waits until something is so; the limit ends only what hangs. */
export async function until(isSo, seconds = 600) {
  for (let tries = 0; tries < seconds * 4; tries++) {
    if (await isSo()) return;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  throw new Error(`It did not come within ${seconds} s.`);
}

function firstLine(child) {
  return new Promise((resolve, reject) => {
    let text = '';
    child.stdout.on('data', (data) => {
      text += String(data);
      const end = text.indexOf('\n');
      if (end !== -1) resolve(text.slice(0, end));
    });
    child.on('close', (code) => reject(new Error(`serve ended with ${code}`)));
  });
}
