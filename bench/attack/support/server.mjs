// A `plimsoll serve` in a process of its own, as its owner starts it.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { Agent, request } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as wait } from 'node:timers/promises';
import { command, killQuietly, patienceMs, until } from './place.mjs';

export class Server {
  #agent = new Agent({ keepAlive: true, maxSockets: 8 });

  constructor(place, options = {}) {
    const { name = 'serve', arguments: more = [], environment = {}, prefix = [] } = options;
    this.place = place;
    const words = [...prefix, process.execPath, command, name, '--port', '0', '--json', ...more];
    this.child = spawn(words[0], words.slice(1), {
      cwd: place.folder,
      env: place.environment(environment),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.stderr = '';
    this.child.stderr.on('data', (data) => {
      this.stderr += String(data);
    });
    this.hasEnded = false;
    this.ended = new Promise((resolve) => {
      this.child.once('close', (code, signal) => {
        this.hasEnded = true;
        this.#agent.destroy();
        resolve({ code, signal });
      });
    });
    this.ready = new Promise((resolve) => {
      createInterface({ input: this.child.stdout }).once('line', (line) => {
        const { url, place: page, pid } = JSON.parse(line);
        // Of an exporter it is the place of its page.
        this.url = url ?? page;
        this.pid = pid;
        resolve(true);
      });
      void this.ended.then(() => resolve(false));
    });
  }

  get token() {
    return readFileSync(join(this.place.home, 'token'), 'utf8').trim();
  }

  /** True once it listens; false where it ended before, or never came to it. */
  async listens(withinMs = patienceMs) {
    const timer = new AbortController();
    const late = wait(withinMs, false, { signal: timer.signal }).catch(() => false);
    const isUp = await Promise.race([this.ready, late]);
    timer.abort();
    return isUp;
  }

  /** The status and the document; status 0 where no answer came. */
  ask(method, path, body) {
    return new Promise((resolve) => {
      const text = body === undefined ? undefined : JSON.stringify(body);
      const failed = (error) => resolve({ status: 0, error: error.code ?? error.message });
      const sent = request(
        `${this.url}${path}`,
        {
          method,
          agent: this.#agent,
          timeout: patienceMs,
          headers: {
            authorization: `Bearer ${this.token}`,
            ...(text !== undefined && {
              'content-type': 'application/json',
              'content-length': Buffer.byteLength(text),
            }),
          },
        },
        (answer) => {
          let said = '';
          answer.setEncoding('utf8');
          answer.on('data', (chunk) => {
            said += chunk;
          });
          answer.once('error', failed);
          answer.once('end', () => resolve({ status: answer.statusCode, document: parsed(said) }));
        },
      );
      sent.once('error', failed);
      sent.once('timeout', () => sent.destroy(new Error('no answer')));
      sent.end(text);
    });
  }

  /** All jobs, the oldest first. */
  async jobs() {
    const all = [];
    for (;;) {
      const after = all.length === 0 ? '' : `&after=${all.at(-1).id}`;
      const { status, document } = await this.ask('GET', `/jobs?order=oldest&limit=1000${after}`);
      if (status !== 200) throw new Error(`GET /jobs was answered with ${status}`);
      all.push(...document.jobs);
      if (document.jobs.length < 1000) return all;
    }
  }

  async isIdle() {
    const { status, document } = await this.ask('GET', '/jobs?limit=1');
    return status === 200 && document.counts.waiting + document.counts.running === 0;
  }

  async kill() {
    this.child.kill('SIGKILL');
    // With a prefix such as setpriv it is the same process; with a shell it may not be.
    if (this.pid !== undefined) killQuietly(this.pid);
    await this.ended;
  }

  async stop() {
    this.child.kill('SIGTERM');
    await until(() => this.hasEnded);
    if (!this.hasEnded) await this.kill();
    return this.ended;
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
