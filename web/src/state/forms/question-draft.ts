import type { WorkloadRequest } from '../../api/types.js';
import { type Draft, FieldReader, onlySet, type Problems } from './form-values.js';
import { emptyWorkload, readWorkload, type WorkloadField } from './workload-draft.js';

export type QuestionField = WorkloadField | 'memory' | 'gpus' | 'maxBatch';
export type QuestionDraft = Draft<QuestionField>;

export const emptyQuestion: QuestionDraft = {
  ...emptyWorkload,
  memory: '',
  gpus: '',
  maxBatch: '',
};

/** What is asked of `POST /plan` or `POST /estimate`. */
export interface Question extends WorkloadRequest {
  readonly memoryBytes?: number | undefined;
  readonly gpus?: number | undefined;
  readonly maxBatch?: boolean | undefined;
}

export function readQuestion(
  draft: QuestionDraft,
  kind: 'plan' | 'estimate',
): { readonly question: Question } | { readonly problems: Problems<QuestionField> } {
  const reader = new FieldReader(draft);
  const workload = readWorkload(reader);
  if (workload.model === undefined) reader.problems.model = 'Name a model.';
  if (kind === 'estimate' && draft.batch.trim() === '') {
    reader.problems.batch = 'Say how many samples a batch has.';
  }
  const asked =
    kind === 'estimate'
      ? workload
      : {
          ...workload,
          ...onlySet({
            memoryBytes: reader.bytes('memory'),
            gpus: reader.whole('gpus', 1),
            maxBatch: draft.maxBatch === 'yes' ? true : undefined,
          }),
        };
  return reader.isFine ? { question: asked } : { problems: reader.problems };
}
