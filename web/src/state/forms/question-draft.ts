import type { Refusal } from '../../api/refusal.js';
import type { WorkloadRequest } from '../../api/types.js';
import { type Draft, FieldReader, onlySet, type Problems } from './form-values.js';
import { emptyWorkload, readWorkload, type WorkloadField } from './workload-draft.js';

type ServingField =
  | 'prompt'
  | 'new'
  | 'beams'
  | 'engine'
  | 'maxModelLen'
  | 'gpuMemoryUtilization'
  | 'kvPrecision';

export type QuestionField = WorkloadField | ServingField | 'memory' | 'gpus' | 'maxBatch';
export type QuestionDraft = Draft<QuestionField>;

export const emptyQuestion: QuestionDraft = {
  ...emptyWorkload,
  prompt: '',
  new: '',
  beams: '',
  engine: '',
  maxModelLen: '',
  gpuMemoryUtilization: '',
  kvPrecision: '',
  memory: '',
  gpus: '',
  maxBatch: '',
};

const questionFields = keysOf(emptyQuestion);

function keysOf<K extends string>(draft: Draft<K>): readonly K[] {
  return Object.keys(draft).filter((key): key is K => key in draft);
}

/** The fields of each mode; the others keep their text and are not sent. */
const fieldsOf = {
  generate: ['model', 'mode', 'gpu', 'precision', 'batch', 'prompt', 'new', 'beams', 'method'],
  serve: [
    ...(['model', 'mode', 'gpu', 'precision', 'quantization'] as const),
    ...(['engine', 'maxModelLen', 'gpuMemoryUtilization', 'kvPrecision'] as const),
  ],
} as const satisfies Readonly<Record<string, readonly QuestionField[]>>;

/** The mode of an estimate that is about text that is written. */
export function servingMode({
  mode,
}: Pick<QuestionDraft, 'mode'>): keyof typeof fieldsOf | undefined {
  return mode === 'generate' || mode === 'serve' ? mode : undefined;
}

/** A question for `POST /plan` or `POST /estimate`. */
export interface Question extends WorkloadRequest {
  readonly memoryBytes?: number | undefined;
  readonly gpus?: number | undefined;
  readonly maxBatch?: boolean | undefined;
}

export function readQuestion(
  draft: QuestionDraft,
  kind: 'plan' | 'estimate',
): { readonly question: Question } | { readonly problems: Problems<QuestionField> } {
  const serving = kind === 'estimate' ? servingMode(draft) : undefined;
  if (serving !== undefined) return readServing(draft, serving);
  const reader = new FieldReader(draft);
  // Neither a plan nor a job knows the modes that only an estimate has.
  const workload = { ...readWorkload(reader), ...(servingMode(draft) && { mode: 'infer' }) };
  if (workload.model === undefined) reader.problems.model = 'Name a model.';
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

/** Fields that the server calls by another name than the form. */
const serverNames: Readonly<Record<string, QuestionField>> = { memoryBytes: 'memory' };

/** The field of the form that a refusal is about; undefined where it is about none in particular. */
export function questionFieldOf({ field = '' }: Pick<Refusal, 'field'>): QuestionField | undefined {
  if (Object.hasOwn(serverNames, field)) return serverNames[field];
  return questionFields.find((name) => name === field);
}

/**
 * Returns the known part of an unfinished question, to ask for the assumptions; undefined without a
 * model, and if the question cannot be asked yet.
 */
export function openQuestion(
  draft: QuestionDraft,
  kind: 'plan' | 'estimate',
): Question | undefined {
  const read = readQuestion(draft, kind);
  return 'question' in read ? read.question : undefined;
}

function readServing(
  draft: QuestionDraft,
  mode: keyof typeof fieldsOf,
): { readonly question: Question } | { readonly problems: Problems<QuestionField> } {
  const asked: readonly QuestionField[] = fieldsOf[mode];
  const relevant: Record<QuestionField, string> = { ...emptyQuestion };
  for (const field of asked) relevant[field] = draft[field];
  const reader = new FieldReader(relevant);
  const workload = readWorkload(reader);
  const question = {
    ...workload,
    ...onlySet({
      prompt: reader.whole('prompt', 1),
      new: reader.whole('new', 1),
      beams: reader.whole('beams', 1),
      engine: reader.text('engine'),
      maxModelLen: reader.whole('maxModelLen', 1),
      gpuMemoryUtilization: shareOf(reader),
      kvPrecision: reader.text('kvPrecision'),
    }),
  };
  if (question.model === undefined) reader.problems.model = 'Name a model.';
  if (mode === 'generate') {
    for (const field of ['batch', 'prompt', 'new'] as const) {
      if (relevant[field].trim() === '') reader.problems[field] = 'Say how many.';
    }
  }
  return reader.isFine ? { question } : { problems: reader.problems };
}

function shareOf(reader: FieldReader<QuestionField>): number | undefined {
  const text = reader.text('gpuMemoryUtilization');
  if (text === undefined) return undefined;
  const share = Number(text);
  if (share > 0 && share <= 1) return share;
  reader.problems.gpuMemoryUtilization = 'Give a share above 0 and up to 1, such as 0.9.';
  return undefined;
}
