import { spawn } from 'node:child_process';
import { chownSync, existsSync, mkdirSync } from 'node:fs';
import { type ClusterJob, hasClusterEnded } from '../../src/engine/cluster.js';

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
