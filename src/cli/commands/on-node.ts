import { resolve } from 'node:path';
import { loadSettings } from '../../config/load.js';
import type { KeptOrder } from '../../engine/job-folder.js';
import { keepPeak, keptPeaks } from '../../engine/measured-peaks.js';
import type { NodeEdges } from '../../engine/node/run-attempt.js';
import { rayHttp } from '../../engine/ray/http.js';
import { RayJobFolder } from '../../engine/ray/job-folder.js';
import { rayOffers, readNodes } from '../../engine/ray/nodes.js';
import { endWithShell, runOnRayNode } from '../../engine/ray/on-node.js';
import { slurmCommands } from '../../engine/slurm/commands.js';
import { SlurmJobFolder } from '../../engine/slurm/job-folder.js';
import { environmentOfSuccessor, runOnNode } from '../../engine/slurm/on-node.js';
import { readCluster } from '../../engine/slurm/open-cluster.js';
import { correctEstimate, measuredRun } from '../../jobs/corrections.js';
import type { Attempt } from '../../run/types.js';
import { systemClock } from '../../time/clock.js';
import type { Known } from '../../units/known.js';
import type { CliIo, CommandModule } from '../io.js';
import { countArgument } from '../options/arguments.js';
import { gpusHere } from '../options/workload-options.js';

/** Called by the scripts that `plimsoll submit --engine slurm|ray` makes; not for people. */
export const onNodeCommand: CommandModule = {
  define(command, context) {
    command
      .argument('<folder>', 'of the job')
      .argument('<attempt>', 'which submission of it this is', countArgument('The attempt'))
      .argument('[start]', 'of Slurm: a name of this start; of Ray: how often Ray lost it before')
      .option('--engine <name>', 'slurm (default) or ray')
      .action(
        context.action(
          (folder: string, number: number, start: string, { engine }: { engine?: string }) =>
            engine === 'ray'
              ? onRayNode(folder, number, Number(start), context.io)
              : onSlurmNode(folder, number, start, context.io),
        ),
      );
  },
};

async function onSlurmNode(
  path: string,
  number: number,
  start: string | undefined,
  io: CliIo,
): Promise<number> {
  const { environment, folder } = io;
  const settings = await loadSettings({ folder, environment });
  const run = slurmCommands(environmentOfSuccessor(environment));
  return runOnNode({
    ...edges(io),
    folder: new SlurmJobFolder(resolve(folder, path)),
    number,
    start,
    run,
    cluster: (options) => readCluster(run, settings.slurm ?? {}, settings.gpus ?? [], options),
  });
}

async function onRayNode(
  path: string,
  number: number,
  restart: number,
  io: CliIo,
): Promise<number> {
  const { environment, folder } = io;
  const settings = await loadSettings({ folder, environment });
  return runOnRayNode({
    ...edges(io),
    folder: new RayJobFolder(resolve(folder, path)),
    number,
    restart,
    at: (address) => rayHttp(address, { environment }),
    offers: async (http) =>
      rayOffers(await readNodes(http), settings.ray ?? {}, settings.gpus ?? []),
    endWithShell: (home) => endWithShell(process.ppid, home),
  });
}

function edges(io: CliIo): NodeEdges {
  const { environment, folder } = io;
  return {
    environment,
    gpusHere: async () => (await gpusHere(await loadSettings({ folder, environment }))).length,
    learn,
    notify: (line) => io.stderr.write(`${line}\n`),
  };
}

function learn(order: KeptOrder, attempts: readonly Attempt[]): Known<number> {
  const { measured, workloadKey, estimatedBytes } = order;
  for (const attempt of attempts) {
    const found = measuredRun(attempt);
    if (found !== undefined) keepPeak(measured, workloadKey, found, systemClock.epochMs());
  }
  const corrected = correctEstimate(estimatedBytes, keptPeaks(measured, workloadKey));
  return corrected?.bytes ?? 'unknown';
}
