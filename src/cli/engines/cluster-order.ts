import type { Settings } from '../../config/settings.js';
import type { ClusterOrder } from '../../engine/cluster.js';
import { keptPeaks, measuredFolder } from '../../engine/measured-peaks.js';
import { estimateProgram } from '../../estimate/program-estimate.js';
import { homeFolder } from '../../files/home-folder.js';
import { judgeNeed } from '../../jobs/daemon/submission/need.js';
import { programNeed } from '../../jobs/daemon/submission/program-need.js';
import type { JobRequest } from '../../jobs/daemon/types.js';
import { workloadKey } from '../../jobs/workload-key.js';
import { answerEstimate } from '../../plan/answers/answer-estimate.js';
import { type AnswerMachine, chosenGpu } from '../../plan/answers/machine.js';
import { changesOf, type EnvironmentChange } from '../../plan/environment/job-environment.js';
import { bytesToReserve } from '../../plan/fit/fit.js';
import { isKnown, type Known } from '../../units/known.js';
import type { CliIo } from '../io.js';
import { workloadMachine } from '../options/workload-machine.js';

/** What was typed, checked, with what the cluster offers at most. */
export interface ClusterAsk {
  readonly request: JobRequest;
  readonly name: string;
  readonly maxAttempts: number;
  readonly options: readonly string[];
  readonly environmentChanges: readonly EnvironmentChange[];
  /** Of the largest GPU. */
  readonly offerBytes: Known<number>;
  readonly settings: Settings;
  readonly onProgress: (text: string, share?: number) => void;
  readonly signal: AbortSignal;
}

/** The job with what it needs: stated, else measured by earlier runs, else estimated, else unknown. */
export async function clusterOrder(ask: ClusterAsk, io: CliIo): Promise<ClusterOrder> {
  const { request, settings } = ask;
  const { command, cwd = io.folder, gpus = 1, batch, memoryBytes } = request;
  const key = workloadKey({
    command,
    workload: request.workload && { ...request.workload },
    settings: { batch },
    gpus,
  });
  const runs = keptPeaks(measuredFolder(homeFolder(io.environment)), key);
  const offerBytes = isKnown(ask.offerBytes) && gpus > 0 ? ask.offerBytes : Number.MAX_SAFE_INTEGER;
  const isOpen = memoryBytes === undefined && !runs.some(({ askedBytes }) => askedBytes === 'none');
  const estimatedBytes = isOpen ? await estimated(ask, offerBytes, settings, io) : 'unknown';
  const { need, alone } = judgeNeed({
    gpus,
    statedBytes: memoryBytes,
    estimatedBytes,
    runs,
    offerBytes,
  });
  return {
    name: ask.name,
    command,
    cwd,
    gpus,
    needBytes: alone ? 'unknown' : need.bytes,
    basis: need.basis,
    estimatedBytes,
    workloadKey: key,
    batch: batch ?? 'unknown',
    maxAttempts: ask.maxAttempts,
    options: ask.options,
    ...changesOf(ask),
  };
}

async function estimated(
  { request, onProgress, signal }: ClusterAsk,
  offerBytes: number,
  settings: Settings,
  io: CliIo,
): Promise<Known<number>> {
  const machine: AnswerMachine = { ...workloadMachine(settings, io, {}), signal, onProgress };
  if (request.workload !== undefined) {
    return bytesToReserve(await answerEstimate(request.workload, machine), offerBytes);
  }
  const found = await programNeed(
    request,
    offerBytes,
    async ({ command, folder = io.folder, variables, timeoutSeconds }, stopped) => {
      const { gpu } = await chosenGpu(undefined, machine);
      const environment = { ...io.environment, ...variables };
      const place = { ...machine, folder, environment, signal: stopped, timeoutSeconds };
      return estimateProgram({ command, gpu }, place);
    },
    signal,
  );
  if (found?.failure) io.stderr.write(`plimsoll: it could not be traced: ${found.failure}\n`);
  return found?.bytes ?? 'unknown';
}
