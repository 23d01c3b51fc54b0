import { Failure } from '../../failure.js';
import { homeFolder } from '../../files/home-folder.js';
import { publishedName } from '../../model/names/published-name.js';
import type { PlanLoading } from '../../plan/answers/plan-loading.js';
import type { PlanRequest } from '../../plan/answers/plan-request.js';
import { saveQuantization } from '../../plan/quantization/quantization-file.js';

/** Keeps it for the model, and answers where. */
export function saveLoading(
  loading: PlanLoading,
  { model, wishes }: PlanRequest,
  environment: Readonly<Record<string, string | undefined>>,
): string {
  if (model === undefined) throw notSaved();
  const { preset, memory, computeDtype } = loading;
  const forTraining = wishes.mode === 'train';
  const home = homeFolder(environment);
  return saveQuantization(home, {
    model: publishedName(model.path, home) ?? model.path,
    preset,
    forTraining,
    computeDtype,
    memory,
  });
}

export function notSaved(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: '--save keeps how transformers loads a model, and this is not one of its models.',
    next: 'Leave it out.',
  });
}
