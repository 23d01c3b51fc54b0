import { resolve } from 'node:path';
import { loadSettings } from '../../config/load.js';
import { keepPeak, keptPeaks } from '../../engine/measured-peaks.js';
import { slurmCommands } from '../../engine/slurm/commands.js';
import { SlurmJobFolder, type SlurmOrder } from '../../engine/slurm/job-folder.js';
import { runOnNode } from '../../engine/slurm/on-node.js';
import { readCluster } from '../../engine/slurm/open-cluster.js';
import { environmentOfSuccessor } from '../../engine/slurm/successor-environment.js';
import { correctEstimate, measuredRun } from '../../jobs/corrections.js';
import type { Attempt } from '../../run/types.js';
import { systemClock } from '../../time/clock.js';
import type { Known } from '../../units/known.js';
import type { CommandModule } from '../command-module.js';
import type { CliIo } from '../io.js';
import { countArgument } from '../options/arguments.js';
import { gpusHere } from '../watching/gpus-here.js';

/** Called by the batch scripts that `plimsoll submit --engine slurm` makes; not for people. */
export const onNodeCommand: CommandModule = {
  define(command, context) {
    command
      .argument('<folder>', 'of the job')
      .argument('<attempt>', 'which submission of it this is', countArgument('The attempt'))
      .action(
        context.action((folder: string, number: number) => onNode(folder, number, context.io)),
      );
  },
};

async function onNode(path: string, number: number, io: CliIo): Promise<number> {
  const { environment, folder } = io;
  const settings = await loadSettings({ folder, environment });
  const run = slurmCommands(environmentOfSuccessor(environment));
  return runOnNode({
    folder: new SlurmJobFolder(resolve(folder, path)),
    number,
    environment,
    run,
    cluster: () => readCluster(run, settings.slurm ?? {}, settings.gpus ?? []),
    gpusHere: async () => (await gpusHere(settings)).length,
    learn,
    notify: (line) => io.stderr.write(`${line}\n`),
  });
}

function learn(order: SlurmOrder, attempts: readonly Attempt[]): Known<number> {
  const { measured, workloadKey, estimatedBytes } = order;
  for (const attempt of attempts) {
    const found = measuredRun(attempt);
    if (found !== undefined) keepPeak(measured, workloadKey, found, systemClock.epochMs());
  }
  const corrected = correctEstimate(estimatedBytes, keptPeaks(measured, workloadKey));
  return corrected?.bytes ?? 'unknown';
}
