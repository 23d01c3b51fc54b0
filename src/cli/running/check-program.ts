import type { Settings } from '../../config/settings.js';
import { type FoundGpu, gpuAtHand } from '../../estimate/cards/gpu-at-hand.js';
import { estimateProgram } from '../../estimate/program-estimate.js';
import { programCommand } from '../../estimate/trace/program-command.js';
import type { Estimate } from '../../estimate/types.js';
import { Failure } from '../../failure.js';
import { surelyTooLarge } from '../../plan/fit/fit.js';
import { formatBytes } from '../../units/bytes.js';
import { type CliIo, printJson, textStyle } from '../io.js';
import { workloadMachine } from '../options/workload-machine.js';
import { openLiveProgress } from '../screen/live-progress.js';
import { stopOnSignals } from '../stop.js';

/** A program that is to be checked before it is started. */
export interface CheckedRun {
  readonly command: readonly string[];
  readonly variables: Readonly<Record<string, string>>;
  /** The device that it will run on. */
  readonly device: string;
  /** What PyTorch may take of it; all of it where undefined. */
  readonly memoryBytes: number | undefined;
  readonly json: boolean;
}

/**
 * Traces a program before it is started. The exit code where it is not to be started: 1 where it
 * surely does not fit, 130 where somebody interrupted. What could not be traced is started, and said.
 */
export async function checkBeforeRun(
  run: CheckedRun,
  settings: Settings,
  io: CliIo,
): Promise<number | undefined> {
  programCommand(run.command);
  const machine = workloadMachine(settings, io, {});
  const found = (await machine.gpusHere()).find(({ id }) => id === run.device);
  if (found === undefined) throw noGpu(run.device);
  const { gpu } = gpuAtHand([found], settings.gpus ?? [], machine.wording);
  const limit = run.memoryBytes === undefined ? Infinity : run.memoryBytes + gpu.context.bytes;
  const capacityBytes = Math.min(gpu.capacityBytes, limit);
  using stop = stopOnSignals([]);
  const progress = openLiveProgress(io.stderr, textStyle(io).unicode);
  try {
    const estimate = await estimateProgram(
      { command: run.command, gpu },
      {
        ...machine,
        environment: { ...io.environment, ...run.variables },
        signal: stop.signal,
        onProgress: (text, share) => progress.show(`Checking before the start: ${text}`, share),
      },
    );
    if (!surelyTooLarge(estimate, capacityBytes)) return undefined;
    progress.end();
    refuse(estimate, capacityBytes, found, run, io);
    return 1;
  } catch (error) {
    if (stop.interruptedBy !== undefined) return stop.interruptedBy;
    if (!(error instanceof Failure)) throw error;
    progress.line(`plimsoll: not checked, and started all the same: ${error.fact}`);
    return undefined;
  } finally {
    progress.end();
  }
}

function refuse(
  estimate: Estimate,
  capacityBytes: number,
  { id, name }: FoundGpu,
  { json }: CheckedRun,
  io: CliIo,
): void {
  const { leastCapacityBytes } = estimate.peak;
  const fact = `The program needs ${formatBytes(leastCapacityBytes)} (estimated, by trace), and there are ${formatBytes(capacityBytes)} on ${id} (${name}): it was not started.`;
  const next = 'Take a smaller batch ("plimsoll plan -- COMMAND" finds one), or leave --check out.';
  io.stderr.write(`plimsoll: does-not-fit: ${fact} ${next}\n`);
  if (json) printJson(io, { outcome: 'refused', fits: false, capacityBytes, estimate });
}

function noGpu(device: string): Failure {
  return new Failure({
    kind: 'missing',
    code: 'no-gpu-to-check',
    fact: `--check is for programs on a GPU, and this one would run on ${device}.`,
    next: 'Name a GPU with --device, or leave --check out.',
  });
}
