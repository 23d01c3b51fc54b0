import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { killAll, seenProcesses } from './processes.js';

/** How often each kind of process is killed: `PLIMSOLL_TEST_KILLS`, else this. */
export function killCount(usual: number): number {
  const text = process.env['PLIMSOLL_TEST_KILLS'] ?? String(usual);
  if (!/^\d{1,4}$/.test(text)) throw new Error(`PLIMSOLL_TEST_KILLS cannot be "${text}"`);
  return Number(text);
}

/** How long the program of a job takes. */
const jobMs = 3000;

/** Some moment within a job of this file, from before its start to after its end. */
export function anyMoment(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.random() * 2 * jobMs));
}

/** Where jobs note what they do. */
export class KillNotes {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  /** A program that notes when it begins and ends, and where another start of it runs at that time. */
  command(name: string): readonly string[] {
    const notes = join(this.#folder, `notes-${name}`);
    const script = `exec 9>>${notes}.lock
flock -n 9 || echo double >> ${notes}
echo begun >> ${notes}
sleep ${jobMs / 1000}
echo done >> ${notes}`;
    return ['sh', '-c', script];
  }

  /**
   * SIGKILL to the supervisor of this job, some moment after it began; also to the process that started it,
   * where that is asked for.
   */
  async killSupervisor(name: string, alsoParent = false): Promise<void> {
    const mark = this.mark(name);
    const own = () =>
      seenProcesses().filter(
        ({ command }) => command.includes(mark) && command.includes('plimsoll.js run'),
      );
    // On a busy machine the job may be over before this looks: then it has no supervisor any more.
    while (own().length === 0 && !this.of(name).includes('done')) {
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    await new Promise((resolve) => setTimeout(resolve, Math.random() * jobMs));
    const supervisors = own();
    const parents = new Set(supervisors.map(({ parent }) => parent));
    killAll(alsoParent ? seenProcesses().filter(({ pid }) => parents.has(pid)) : []);
    killAll(supervisors);
  }

  /** The part of the command by which its processes are found. */
  mark(name: string): string {
    return `${join(this.#folder, `notes-${name}`)}.lock`;
  }

  of(name: string): readonly string[] {
    const notes = join(this.#folder, `notes-${name}`);
    return existsSync(notes) ? readFileSync(notes, 'utf8').trim().split('\n') : [];
  }

  /** Jobs that are lost, that ran twice at the same time, or twice although their processes stayed alive. */
  faults(names: readonly string[], staysAlive: (name: string) => boolean): readonly string[] {
    const all = names.map((name) => ({ name, notes: this.of(name) }));
    const begun = all.flatMap(({ notes }) => notes).filter((note) => note === 'begun').length;
    process.stdout.write(`${names.length} jobs, a kill in each: begun ${begun} times\n`);
    return all
      .filter(({ name, notes }) => {
        const ranOnce = notes.join() === 'begun,done';
        if (staysAlive(name)) return !ranOnce;
        return !notes.includes('done') || notes.includes('double');
      })
      .map(({ name, notes }) => `${name}: ${notes.join()}`);
  }
}
