import type { Settings } from '../../config/settings.js';
import { homeFolder } from '../../files/home-folder.js';
import { publishedName } from '../../model/names/published-name.js';
import type { Advice } from '../../optimize/advice.js';
import { changed, type PlannedChange } from '../../optimize/apply.js';
import {
  loadingAdvice,
  savingsAdvice,
  type TrainingAnswer,
} from '../../optimize/training-answer.js';
import { modelPaste } from '../../optimize/training-paste.js';
import { makeEstimate, prepareEstimate } from '../../plan/answers/answer-estimate.js';
import { makePlan, preparePlan } from '../../plan/answers/answer-plan.js';
import { type AnswerMachine, chosenGpu } from '../../plan/answers/machine.js';
import { loadingOf } from '../../plan/answers/plan-loading.js';
import type { PreparedPlan } from '../../plan/answers/plan-request.js';
import type { Plan } from '../../plan/fit/types.js';
import { quantizationFile } from '../../plan/quantization/quantization-file.js';
import { settingOptions } from '../../report/estimate-words.js';
import { workloadRequest } from '../options/workload-options.js';
import { memoryBudget, type OptimizeArguments, withConfiguration } from './arguments.js';
import { loadingHere } from './loading-here.js';

/** What a training part of the answer brings. */
export interface TrainingFound {
  readonly training: TrainingAnswer;
  readonly advice: readonly Advice[];
  readonly changes: readonly PlannedChange[];
}

/** How to train a model: its plan, and what each setting saves beside what was asked for. */
export async function trainModel(
  model: string | undefined,
  asked: OptimizeArguments,
  settings: Settings,
  machine: AnswerMachine,
): Promise<TrainingFound> {
  const given = withConfiguration(asked, settings);
  const workload = { ...workloadRequest(model, given, machine.folder), mode: 'train' } as const;
  const gpus = await machine.gpusHere();
  const isKnownCard = given.gpu !== undefined || gpus.length > 0;
  const { gpu } = await chosenGpu(given.gpu, machine);
  const memoryBytes = memoryBudget(given, settings, isKnownCard ? gpu : undefined);
  const prepared = await preparePlan({ ...workload, memoryBytes }, machine);
  const plan = await makePlan(prepared, machine);
  const { batch, accumulation } = plan.settings;
  // What single settings save is told beside the batch that was asked for, or that was chosen.
  const beside = { ...workload, batch: workload.batch ?? batch * accumulation };
  const before = await makeEstimate(await prepareEstimate(beside, machine), machine);
  const loading = loadingHere(settings, isKnownCard);
  const { budget } = prepared.request;
  return {
    training: {
      of: model ?? 'The model',
      fits: plan.fits,
      surely: plan.surely,
      settings: plan.settings,
      peakBytes: plan.estimate.peak.leastCapacityBytes,
      capacityBytes: budget.capacityBytes,
      method: plan.estimate.method,
      loading,
      paste: modelPaste(plan.settings, loading, budget.memoryBytes),
      notes: [...plan.notes, ...plan.estimate.notes],
    },
    advice: [...savingsAdvice(before, plan.settings, settingOptions), loadingAdvice(loading)],
    changes: savedQuantization(plan, prepared, machine),
  };
}

/** How to load the weights, kept for `plimsoll.load`, where the plan quantizes them. */
function savedQuantization(
  plan: Plan,
  { request }: PreparedPlan,
  machine: AnswerMachine,
): readonly PlannedChange[] {
  const loading = loadingOf(plan, request, machine);
  if (loading === undefined || request.model === undefined) return [];
  const home = homeFolder(machine.environment);
  const { preset, memory, computeDtype } = loading;
  const model = publishedName(request.model.path, home) ?? request.model.path;
  const file = quantizationFile(home, { model, preset, forTraining: true, computeDtype, memory });
  return changed({
    path: file.path,
    after: file.text,
    what: `how plimsoll.load loads ${model}: ${preset}`,
  });
}
