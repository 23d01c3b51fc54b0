import { Command } from 'commander';
import { wrapText } from '../report/text/text-width.js';
import type { CliIo, CommandContext, CommandModule } from './io.js';

interface CommandEntry {
  readonly name: string;
  readonly summary: string;
  readonly load: () => Promise<CommandModule>;
  /** Started by our own scripts, not by people. */
  readonly hidden?: boolean;
}

/** Only the command that was asked for is loaded. */
const commands: readonly CommandEntry[] = [
  {
    name: 'devices',
    summary: 'list GPUs and host memory, with the processes that use them',
    load: async () => (await import('./commands/devices.js')).devicesCommand,
  },
  {
    name: 'monitor',
    summary: 'watch memory live on the terminal',
    load: async () => (await import('./commands/monitor.js')).monitorCommand,
  },
  {
    name: 'profile',
    summary: 'watch for a while and write a report (JSON, HTML)',
    load: async () => (await import('./commands/profile.js')).profileCommand,
  },
  {
    name: 'oom',
    summary: 'warn before memory runs out',
    load: async () => (await import('./commands/oom.js')).oomCommand,
  },
  {
    name: 'leak',
    summary: 'find memory that grows and is never freed',
    load: async () => (await import('./commands/leak.js')).leakCommand,
  },
  {
    name: 'replay',
    summary: 'run the forecast on a recorded series',
    load: async () => (await import('./commands/replay.js')).replayCommand,
  },
  {
    name: 'estimate',
    summary: 'estimate the memory a model needs, without a GPU',
    load: async () => (await import('./commands/estimate.js')).estimateCommand,
  },
  {
    name: 'plan',
    summary: 'find the fastest settings that fit, or the largest batch',
    load: async () => (await import('./commands/plan.js')).planCommand,
  },
  {
    name: 'run',
    summary: 'run a program, and recover it when it runs out of memory',
    load: async () => (await import('./commands/run.js')).runCommand,
  },
  {
    name: 'serve',
    summary: 'start the server: a job queue that packs jobs by memory, and a dashboard',
    load: async () => (await import('./commands/serve.js')).serveCommand,
  },
  {
    name: 'dashboard',
    summary: 'print a link that opens the dashboard in a browser',
    load: async () => (await import('./commands/dashboard.js')).dashboardCommand,
  },
  {
    name: 'submit',
    summary: 'submit a job; the server runs it when its memory is free',
    load: async () => (await import('./commands/submit.js')).submitCommand,
  },
  {
    name: 'jobs',
    summary: 'list jobs: running, waiting (and why), ended',
    load: async () => (await import('./commands/jobs.js')).jobsCommand,
  },
  {
    name: 'logs',
    summary: 'show the output of a job',
    load: async () => (await import('./commands/logs.js')).logsCommand,
  },
  {
    name: 'cancel',
    summary: 'cancel waiting or running jobs',
    load: async () => (await import('./commands/cancel.js')).cancelCommand,
  },
  {
    name: 'limit',
    summary: 'move the memory limit of a job or a run while it runs',
    load: async () => (await import('./commands/limit.js')).limitCommand,
  },
  {
    name: 'pack',
    summary: 'run a list of commands side by side, as their memory allows, without a server',
    load: async () => (await import('./commands/pack.js')).packCommand,
  },
  {
    name: 'fleet',
    summary: 'show all nodes that a Prometheus scrapes: risk, leaks, unused reservations',
    load: async () => (await import('./commands/fleet.js')).fleetCommand,
  },
  {
    name: 'exporter',
    summary: 'export the memory of this node to Prometheus: devices, processes, jobs, forecasts',
    load: async () => (await import('./commands/exporter.js')).exporterCommand,
  },
  {
    name: 'users',
    summary: 'manage users: tokens, roles, quotas; show the audit log',
    load: async () => (await import('./commands/users.js')).usersCommand,
  },
  {
    name: 'snapshot',
    summary: 'analyse a PyTorch memory snapshot: what holds memory, leaks, fragmentation',
    load: async () => (await import('./commands/snapshot.js')).snapshotCommand,
  },
  {
    name: 'optimize',
    summary: 'say what to do about memory: on this machine, for a model, for a program',
    load: async () => (await import('./commands/optimize.js')).optimizeCommand,
  },
  {
    name: 'migrate',
    summary:
      'propose changes to a Python code base: debug settings, deprecated calls, retries by hand',
    load: async () => (await import('./commands/migrate.js')).migrateCommand,
  },
  {
    name: 'doctor',
    summary: 'check whether plimsoll works on this machine, and how to fix it',
    load: async () => (await import('./commands/doctor.js')).doctorCommand,
  },
  {
    name: 'env',
    summary: 'recommend or check environment variables for a job',
    load: async () => (await import('./commands/env.js')).envCommand,
  },
  {
    name: 'models',
    summary: 'list the models that are known by name',
    load: async () => (await import('./commands/models.js')).modelsCommand,
  },
  {
    name: 'gpus',
    summary: 'list the cards that --gpu takes',
    load: async () => (await import('./commands/models.js')).gpusCommand,
  },
  {
    name: 'card',
    summary: 'write a table for a README: the memory of a model by method and card',
    load: async () => (await import('./commands/card.js')).cardCommand,
  },
  {
    name: 'check',
    summary: 'compare the memory of programs before and after a change, against a budget',
    load: async () => (await import('./commands/check.js')).checkCommand,
  },
  {
    name: 'completion',
    summary: 'print a script that completes commands, options and names in a shell',
    load: async () => (await import('./commands/completion.js')).completionCommand(wholeProgram),
  },
  {
    name: 'on-node',
    summary: 'run a job on a node of a cluster; batch scripts call it',
    load: async () => (await import('./commands/on-node.js')).onNodeCommand,
    hidden: true,
  },
  {
    name: 'share',
    summary: 'the share of a card that a workload needs; plimsoll.ray asks it',
    load: async () => (await import('./commands/share.js')).shareCommand,
    hidden: true,
  },
];

const examples = `
Examples:
  plimsoll devices
  plimsoll monitor
  plimsoll profile --duration 60 --output profile.json --html profile.html
  plimsoll run --batch-size 32 -- python train.py --batch-size {batch_size}
  plimsoll serve
  plimsoll submit --memory 6GiB --follow -- python train.py

Exit codes: 0 yes or done; 1 no ("plan": nothing fits, "pack": jobs were not started, "leak" and
"snapshot": a leak was found, "oom": memory is about to run out, "submit": refused, "env --check": a
setting is bad, "optimize": the training does not fit, "doctor": something needed does not work);
2 bad usage or input; 3 something is missing on this machine; 4 the job failed; 5 "plan": it should
fit, but may lack memory; 130 interrupted; 70 a bug in plimsoll. "estimate" answers how much and
exits with 0, also where that does not fit.`;

/** Parses the arguments, runs the command, and answers its exit code. */
export async function runProgram(
  argv: readonly string[],
  io: CliIo,
  version: string,
): Promise<number> {
  let exitCode = 0;
  const context: CommandContext = {
    io,
    version,
    action:
      (act) =>
      async (...given) => {
        exitCode = await act(...given);
      },
  };
  const wanted = wantedCommand(argv);
  const program = await defineProgram(context, (name) => name === wanted);
  await program.parseAsync([...argv], { from: 'user' });
  return exitCode;
}

/** The program with all its commands; only those that are `isLoaded` have their options. */
export async function defineProgram(
  context: CommandContext,
  isLoaded: (name: string) => boolean,
): Promise<Command> {
  const { io } = context;
  const program = new Command('plimsoll')
    .description('The load line for GPU memory: see it, forecast it, be warned before it runs out.')
    .version(context.version)
    .enablePositionalOptions()
    // Commander throws instead of ending the process; `main` puts its errors into our words.
    .exitOverride()
    .configureOutput({
      // What commander itself writes is help, and the version.
      writeOut: (text) => io.stdout.write(wrapHelp(text, io.stdout.columns())),
      writeErr: (text) => io.stderr.write(wrapHelp(text, io.stderr.columns())),
      outputError: () => {},
    })
    .addHelpText('after', examples);
  for (const entry of commands) {
    const command = program
      .command(entry.name, { hidden: entry.hidden ?? false })
      .description(entry.summary);
    if (isLoaded(entry.name)) (await entry.load()).define(command, context);
    command.option('--debug', 'print the stack trace of an error');
  }
  return program;
}

/** All commands with their options; nothing of it is run. */
function wholeProgram(): Promise<Command> {
  const silent = { isTerminal: false, colour: false, columns: () => 100, write: () => {} };
  const output = {
    ...silent,
    closed: new AbortController().signal,
    failure: undefined,
    drained: async () => {},
  };
  const io = { environment: {}, folder: '/', stdout: output, stderr: output };
  return defineProgram({ io, version: '', action: () => async () => {} }, () => true);
}

/** The program itself has no option that takes a value, so the first plain word is the command. */
function wantedCommand(argv: readonly string[]): string | undefined {
  const words = argv.filter((word) => !word.startsWith('-'));
  return words[0] === 'help' ? words[1] : words[0];
}

/** Longer lines are hard to read, however wide the terminal is. */
const widest = 100;

/**
 * Help as it is printed: paragraphs are wrapped to the terminal. Indented lines (options, which are
 * wrapped already, and examples, which people copy) stay as they are.
 *
 * @example
 * wrapHelp('It watches\nmemory.\n\n  plimsoll monitor\n', 80); // 'It watches memory.\n\n  plimsoll monitor\n'
 */
export function wrapHelp(text: string, columns: number): string {
  const width = Math.min(columns, widest);
  const blocks: string[] = [];
  for (const line of text.split('\n')) {
    const before = blocks.at(-1) ?? '';
    const goesOn = isProse(line) && isProse(before) && !before.endsWith(':');
    if (goesOn) blocks[blocks.length - 1] = `${before} ${line}`;
    else blocks.push(line);
  }
  return blocks.flatMap((block) => (isProse(block) ? wrapText(block, width) : [block])).join('\n');
}

function isProse(line: string): boolean {
  return /^\S/.test(line);
}
