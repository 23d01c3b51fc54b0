import { z } from '@hono/zod-openapi';
import { versioned } from '../../files/document-version.js';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import type { Answer } from './operation.js';

/** What `POST /plan` takes beside the workload. */
interface PlanAsked extends WorkloadRequest {
  readonly memoryBytes?: number | undefined;
  readonly gpus?: number | undefined;
  readonly maxBatch?: boolean | undefined;
}

/** How errors and notes name what was asked for: as a request does, or as the forms of the dashboard. */
export const answerWords = ['request', 'form'] as const;
export type AnswerWords = (typeof answerWords)[number];

/** Who makes estimates and plans: what `plimsoll estimate --json` and `plan --json` answer. */
export interface Answers {
  estimate(request: WorkloadRequest, signal: AbortSignal, words?: AnswerWords): Promise<object>;
  plan(request: PlanAsked, signal: AbortSignal, words?: AnswerWords): Promise<object>;
  /** The values that are taken for what a request leaves out. */
  estimateAssumptions(request: WorkloadRequest, signal: AbortSignal): Promise<object>;
  planAssumptions(request: PlanAsked, signal: AbortSignal): Promise<object>;
  /** The models and cards that a request can name. */
  names(): Promise<object>;
}

/** Of a route that takes nothing: whatever stands there is a mistake worth telling. */
export const nothing = z.strictObject({});
export const noBody = { schema: z.undefined(), example: undefined };

export function jsonAnswer(
  value: object,
  status = 200,
  headers: Readonly<Record<string, string>> = {},
): Answer {
  return {
    status,
    body: JSON.stringify(versioned(value)),
    // It is true now; caches must not keep it.
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store', ...headers },
  };
}

/** The declaration of an answer in JSON. */
export function jsonContent(schema: z.ZodType, description: string, example: object) {
  const content = { schema, example: versioned(example) };
  return { description, content: { 'application/json': content } };
}
