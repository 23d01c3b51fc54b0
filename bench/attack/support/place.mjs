// A folder of one attack: the home of a server, the files that its jobs write, and all processes that
// were started for it. Closing it ends them and removes it, whatever state they are in.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as wait } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { cgroupsOf, processesOf, removeCgroups } from './leftovers.mjs';

/** Of this checkout, unless a test names one that it built. */
export const command =
  process.env.ATTACK_COMMAND ?? fileURLToPath(new URL('../../../bin/plimsoll.js', import.meta.url));
/** Ends a wait that would otherwise hold up the whole suite. No promise is judged by it. */
export const patienceMs = 180_000;

const open = new Set();
let isClosing = false;

export class Place {
  #undo = [];

  constructor() {
    if (isClosing) throw new Error('the suite was interrupted');
    this.folder = mkdtempSync(join(tmpdir(), 'plimsoll-attack-'));
    this.home = join(this.folder, 'home');
    mkdirSync(this.home, { mode: 0o700 });
    open.add(this);
  }

  /** Without what the person who runs the suite has set for plimsoll. */
  environment(more = {}) {
    const own = Object.entries(process.env).filter(([name]) => !name.startsWith('PLIMSOLL_'));
    return {
      ...Object.fromEntries(own),
      PLIMSOLL_HOME: this.home,
      ATTACK_MARK: this.folder,
      ...more,
    };
  }

  /** To be done when it is closed, the latest first. */
  onClose(undo) {
    this.#undo.push(undo);
  }

  /** A small disk in place of the home; false where this user may not mount one. */
  mountSmallHome(megabytes) {
    const options = `size=${megabytes}m,mode=700`;
    if (spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', this.home]).status !== 0) {
      return false;
    }
    this.onClose(() => spawnSync('umount', ['-l', this.home]));
    return true;
  }

  async close() {
    for (let pids = processesOf(this.folder); pids.length > 0; pids = processesOf(this.folder)) {
      for (const pid of pids) killQuietly(pid);
      await wait(20);
    }
    for (const undo of this.#undo.splice(0).toReversed()) undo();
    removeCgroups(cgroupsOf(this.home));
    rmSync(this.folder, { recursive: true, force: true });
    open.delete(this);
  }
}

/** For good: an attack that goes on meanwhile gets no other. */
export async function closeAllPlaces() {
  isClosing = true;
  for (const place of open) await place.close();
}

export function killQuietly(pid, signal = 'SIGKILL') {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

/** Looks until it is so; false where it has not come to be in all that time. */
export async function until(isSo, { everyMs = 20, withinMs = patienceMs } = {}) {
  for (const end = performance.now() + withinMs; ; ) {
    if (await isSo()) return true;
    if (performance.now() > end) return false;
    await wait(everyMs);
  }
}
