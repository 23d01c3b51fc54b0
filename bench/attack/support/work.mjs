// Jobs that write down when they begin and when they are done: whether each ran exactly once is read
// from those two files, not from what the server says.
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const MiB = 2 ** 20;
const script = 'echo "$1" >> "$2/begun"; sleep "$3"; echo "$1" >> "$2/done"';

const gated =
  'echo "$1" >> "$2/begun"; until [ -e "$2/gate" ]; do sleep 0.1; done; echo "$1" >> "$2/done"';

export class Work {
  /** Submitted and acknowledged: the name of each job, and its id. */
  acknowledged = new Map();
  #unanswered = new Map();
  #count = 0;

  constructor(place) {
    this.place = place;
  }

  /** Submits one; `true` once it is acknowledged. One without an answer is sent again by `sendAgain`. */
  async submit(server, seconds, more = {}) {
    return this.#submit(server, script, seconds, more);
  }

  /** One that goes on until the gate is opened. */
  async submitGated(server, more = {}) {
    return this.#submit(server, gated, 0, more);
  }

  openGate() {
    writeFileSync(join(this.place.folder, 'gate'), '');
  }

  #submit(server, text, seconds, more) {
    const name = `work-${++this.#count}`;
    const body = {
      command: ['sh', '-c', text, 'job', name, this.place.folder, String(seconds)],
      memoryBytes: 32 * MiB,
      name,
      submission: name,
      ...more,
    };
    this.#unanswered.set(name, body);
    return this.#send(server, body);
  }

  /** What was sent to a server that died, to the next one. */
  async sendAgain(server) {
    for (const body of this.#unanswered.values()) await this.#send(server, body);
  }

  async #send(server, body) {
    const { status, document } = await server.ask('POST', '/jobs', body);
    if (status === 201) {
      this.#unanswered.delete(body.name);
      this.acknowledged.set(body.name, document.id);
    }
    return status === 201;
  }

  begun() {
    return this.#counted('begun');
  }

  done() {
    return this.#counted('done');
  }

  #counted(file) {
    const counts = new Map();
    let text = '';
    try {
      text = readFileSync(join(this.place.folder, file), 'utf8');
    } catch {
      // None has come so far.
    }
    for (const name of text.split('\n').slice(0, -1)) counts.set(name, (counts.get(name) ?? 0) + 1);
    return counts;
  }

  /**
   * Each acknowledged job is known, under its own id, and ran to its end once; no other ran twice.
   * `mayFail` tells which jobs an attack has ended itself.
   */
  judge(jobs, findings, mayFail = () => false) {
    const [begun, done] = [this.begun(), this.done()];
    const byId = new Map(jobs.map((job) => [job.id, job]));
    for (const [name, id] of this.acknowledged) {
      const job = byId.get(id);
      if (job?.name !== name) {
        findings.lost.push(`${name} (job ${id}) is not known`);
        continue;
      }
      if (mayFail(job)) continue;
      if (job.state !== 'succeeded') findings.lost.push(`job ${id} ${job.state}: ${job.reason}`);
      else if ((done.get(name) ?? 0) === 0)
        findings.lost.push(`job ${id} succeeded and is not done`);
    }
    for (const [name, times] of begun) {
      if (times > 1) findings.doubled.push(`${name} was started ${times} times`);
    }
    const names = new Map();
    for (const { name } of jobs.filter((job) => job.name.startsWith('work-'))) {
      names.set(name, (names.get(name) ?? 0) + 1);
    }
    for (const [name, times] of names) {
      if (times > 1) findings.doubled.push(`${name} is in the queue ${times} times`);
    }
  }
}
