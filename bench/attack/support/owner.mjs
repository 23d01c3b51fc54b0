// The owner, who looks at his jobs ten times a second while the attack goes on, from a thread of his
// own; each time a bare server is asked at the same moment, to tell what the machine itself takes.
import { once } from 'node:events';
import { Worker } from 'node:worker_threads';

export class Owner {
  #worker = new Worker(new URL('./owner-thread.mjs', import.meta.url));

  /** From now on: this server is up and must answer. */
  watch({ url, token }) {
    this.#worker.postMessage({ watch: { url, token } }, []);
  }

  /** The server is about to be killed: answers that are under way do not count. */
  async pause() {
    await this.#asked({ pause: true });
  }

  /** What was asked, what was slowest, and what was answered wrong. */
  async close() {
    const figures = await this.#asked({ close: true });
    await this.#worker.terminate();
    return figures;
  }

  async #asked(message) {
    const heard = once(this.#worker, 'message');
    this.#worker.postMessage(message, []);
    const [answer] = await heard;
    return answer;
  }
}
