import { spawn } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ClusterJob, hasClusterEnded } from '../../src/engine/cluster.js';
import { killAll, seenProcesses } from './processes.js';

/** How a command ended. */
interface Answer {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

interface EngineCommandsOptions {
  readonly program: string;
  /** `--engine` and what belongs to it. */
  readonly engine: readonly string[];
  readonly home: string;
  /** What makes the commands speak to this cluster. */
  readonly environment?: Readonly<Record<string, string>>;
  /** Another account than that of the test. */
  readonly account?: number | undefined;
}

/** The commands of a user of a cluster, as they are typed. */
export interface EngineCommands {
  /** Any command, without the engine. */
  plain(words: readonly string[]): Promise<Answer>;
  run(command: string, ...words: readonly string[]): Promise<Answer>;
  /** `submit` that must be taken. */
  submit(...words: readonly string[]): Promise<ClusterJob>;
  jobs(): Promise<readonly ClusterJob[]>;
  /** Looks at these jobs until all of them are so; in the order of the names. */
  until(
    ids: readonly string[],
    isReached: (job: ClusterJob) => boolean,
  ): Promise<readonly ClusterJob[]>;
  untilEnded(...ids: readonly string[]): Promise<readonly ClusterJob[]>;
}

const lookMs = 500;

export function engineCommands(options: EngineCommandsOptions): EngineCommands {
  const { program, engine, home, account, environment = {} } = options;
  if (!existsSync(home)) mkdirSync(home);
  if (account !== undefined) chownSync(home, account, account);

  function plain(words: readonly string[]): Promise<Answer> {
    const child = spawn(process.execPath, [program, ...words], {
      cwd: home,
      env: { ...process.env, ...environment, PLIMSOLL_HOME: home, HOME: home },
      stdio: ['ignore', 'pipe', 'pipe'],
      ...(account === undefined ? {} : { uid: account, gid: account }),
    });
    let stdout = '';
    let stderr = '';
    child.stdout.on('data', (chunk) => (stdout += chunk));
    child.stderr.on('data', (chunk) => (stderr += chunk));
    return new Promise((resolve) =>
      child.on('close', (code) => resolve({ code: code ?? -1, stdout, stderr })),
    );
  }

  const commands: EngineCommands = {
    plain,
    run: (command, ...words) => plain([command, ...engine, ...words]),
    async submit(...words) {
      const answer = await commands.run('submit', '--json', ...words);
      if (answer.code !== 0) throw new Error(answer.stderr);
      return JSON.parse(answer.stdout);
    },
    async jobs() {
      const answer = await commands.run('jobs', '--all', '--json');
      // A cluster whose head was just killed answers a moment later.
      return answer.code === 0 ? JSON.parse(answer.stdout).jobs : [];
    },
    async until(ids, isReached) {
      for (;;) {
        const all = await commands.jobs();
        const own = ids.flatMap((id) => all.filter((job) => job.id === id));
        if (own.length === ids.length && own.every(isReached)) return own;
        await new Promise((resolve) => setTimeout(resolve, lookMs));
      }
    },
    untilEnded: (...ids) => commands.until(ids, ({ state }) => hasClusterEnded(state)),
  };
  return commands;
}

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
