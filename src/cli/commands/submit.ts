import type { Command } from 'commander';
import { gpuSharings } from '../../engine/kubernetes/pod-request.js';
import { supervisions } from '../../engine/kubernetes/supervised-command.js';
import { Failure } from '../../failure.js';
import { hasEnded } from '../../jobs/types.js';
import { jobEndWords, jobStandsWords, submittedWords } from '../../report/text/job-words.js';
import { systemClock } from '../../time/clock.js';
import { capitalized } from '../../units/sentence.js';
import { addServerOptions, isOnThisMachine, type ServerArguments } from '../client/find-server.js';
import { jobExitCode } from '../client/job-exit.js';
import { sendJob } from '../client/send-job.js';
import { watchJob } from '../client/watch-job.js';
import { withServer } from '../client/with-server.js';
import type { CommandContext, CommandModule } from '../command-module.js';
import {
  addEngineOption,
  checkedForCluster,
  clusterOf,
  type EngineArguments,
} from '../engines/engine-option.js';
import { submitToCluster } from '../engines/submit-to-cluster.js';
import { printJson } from '../io.js';
import { countArgument, oneOfArgument, sizeArgument } from '../options/arguments.js';
import { environmentModeArgument } from '../options/environment-mode.js';
import { hubModel } from '../options/hub-model.js';
import {
  gpusArgument,
  priorityArgument,
  traceArgument,
  waitArgument,
} from '../options/job-arguments.js';
import { type SubmitArguments, submitRequest } from '../options/submit-request.js';
import { environmentArgument } from '../options/submitted-environment.js';
import { addTypeOptions, addWorkloadOptions } from '../options/workload-options.js';

interface Arguments extends SubmitArguments, ServerArguments, EngineArguments {
  readonly dryRun?: boolean;
  readonly attempts?: number;
  readonly follow?: boolean;
  readonly wait?: boolean;
}

export const submitCommand: CommandModule = {
  define(command, context) {
    command
      .argument('[command...]', 'the program and its arguments, after --')
      .passThroughOptions()
      .option('--memory <size>', 'what it takes of each device', sizeArgument('--memory'))
      .option(
        '--model <model>',
        'instead: the model or its name, from which its memory is estimated',
      )
      .option('--priority <n>', 'the higher, the sooner (0)', priorityArgument)
      .option('--gpus <n>', 'GPUs needed together; 0 = host memory (default 1)', gpusArgument)
      .option('--timeout <duration>', 'how long it may wait, such as 10m', waitArgument)
      .option(
        '--estimate-timeout <duration>',
        'how long tracing the program may take (120 s); 0 = do not trace',
        traceArgument,
      )
      .option('--name <name>', 'name of the job in lists')
      .option('--cwd <folder>', 'working directory (the current one)')
      .option(
        '--env <name=value>',
        'environment variable for the job; NAME alone copies it from here',
        environmentArgument,
      )
      .option(
        '--env-mode <mode>',
        'production (default): no debug settings but those --env names, and recommended allocator settings; or keep',
        environmentModeArgument,
      )
      .option('--follow', 'show what it prints until it ends')
      .option('--wait', 'wait until it ends')
      .option('--dry-run', 'with a cluster: print what would be submitted')
      .option(
        '--attempts <n>',
        'with a cluster: submissions at most, each with a larger request (3)',
        countArgument('--attempts'),
      )
      .option('--container-image <name>', 'with kubernetes: the image that has the program')
      .option(
        '--gpu-sharing <way>',
        'with kubernetes: how its GPUs are shared: hami, kai or none (none)',
        oneOfArgument('--gpu-sharing', gpuSharings),
      )
      .option(
        '--host-memory <size>',
        'with kubernetes: host memory to request (a rule by the GPU memory)',
        sizeArgument('--host-memory'),
      )
      .option(
        '--cpus <n>',
        'with kubernetes: processors to request (2 for each GPU)',
        countArgument('--cpus'),
      )
      .option(
        '--supervisor <when>',
        'with kubernetes: run it under "plimsoll run": auto (where the image has it), always, never (auto)',
        oneOfArgument('--supervisor', supervisions),
      )
      // Options of a cluster's own command; a server of ours refuses them.
      .allowUnknownOption();
    addEngineOption(addServerOptions(addTypeOptions(addWorkloadOptions(command))))
      .addHelpText('after', help)
      .action(
        context.action((words: readonly string[], given: Arguments) =>
          clusterOf(given) === undefined
            ? submit(words, checkedForServer(words, given, command), context)
            : submitToCluster(words, checkedForCluster(given), context),
        ),
      );
  },
};

const help = `
Without --memory and without a model, the job reserves what earlier runs of the same command were
measured to use. A command that never ran is traced first, if it is a Python program for one GPU: it
runs on a simulated GPU until each of its phases was seen. If that fails, it gets a whole device for
its first run. {batch_size} and {accumulation} in the command are replaced. The job gets PATH, HOME,
the active Python environment and similar variables, plus those named by --env.

With --engine slurm the job goes to a Slurm cluster: it asks for the shards or the GPU type that its
memory needs, and runs under "plimsoll run" on the node. With --engine ray it goes to a Ray cluster, with
the share of a GPU that its memory needs. Options of sbatch or Ray come after our own, before --. With
--engine kubernetes it becomes a Job with the GPU memory that HAMi or KAI shall give it.

The exit code is 0 when the job was accepted and 1 when it was refused; with --follow or --wait it is 0
when the job succeeded, 1 when it was refused or waited too long, and 4 when it failed or was
cancelled. Ctrl-C leaves the job running.

Examples:
  plimsoll submit --memory 6GiB -- python train.py
  plimsoll submit --estimate-timeout 5m -- python train.py
  plimsoll submit --follow --batch 32 -- python train.py --batch-size {batch_size} --accumulate {accumulation}
  plimsoll submit --model llama-3.2-1b --batch 4 --seq 1024 --precision bf16 -- python train.py
  plimsoll submit --engine slurm --dry-run --memory 30GiB --time=2:00:00 -- python train.py
  plimsoll submit --engine ray --address http://head:8265 --memory 20GiB -- python train.py
  plimsoll submit --engine kubernetes --gpu-sharing hami --container-image pytorch/pytorch --memory 20GiB --dry-run -- python train.py
  plimsoll submit --model gpt2/ --batch 8 --seq 1024 --precision bf16 --gpus 2 --timeout 1h -- python train.py`;

async function submit(
  words: readonly string[],
  given: Arguments,
  { io }: CommandContext,
): Promise<number> {
  return withServer(given, io, async (client, stop) => {
    const isHere = isOnThisMachine(client.address);
    const model = await hubModel(given, io, isHere, stop.signal);
    const request = submitRequest(words, { ...given, ...(model && { model }) }, io, isHere);
    const job = await sendJob(client, request, stop.signal);
    const watched = given.follow === true || given.wait === true;
    const nowMs = systemClock.epochMs();
    const said = watched ? jobStandsWords(job, nowMs) : submittedWords(job, nowMs);
    if (!watched) {
      if (given.json) printJson(io, job);
      else io.stdout.write(`${capitalized(said)}\n`);
      return jobExitCode(job.state);
    }
    // One that ended at once is told about below.
    if (given.json || !hasEnded(job.state)) io.stderr.write(`plimsoll: ${said}\n`);
    const ended = await watchJob(job, {
      client,
      stop,
      io,
      follow: given.follow === true,
      json: given.json === true,
    });
    if (ended === undefined) return stop.interruptedBy ?? 0;
    if (given.json) printJson(io, ended);
    else io.stderr.write(`plimsoll: ${jobEndWords(ended)}\n`);
    return jobExitCode(ended.state);
  });
}

/** What only a cluster takes is an error here, as any unknown option is. */
function checkedForServer(words: readonly string[], given: Arguments, command: Command): Arguments {
  const [first = ''] = words;
  if (first.startsWith('-')) {
    command.error(`error: unknown option '${first}'`, { code: 'commander.unknownOption' });
  }
  for (const option of ['dryRun', 'attempts'] as const) {
    if (given[option] === undefined) continue;
    throw new Failure({
      kind: 'input',
      code: 'bad-usage',
      fact: `--${option === 'dryRun' ? 'dry-run' : option} is for a cluster, and no --engine names one.`,
      next: 'Add --engine slurm, ray or kubernetes, or leave it out.',
    });
  }
  return given;
}
