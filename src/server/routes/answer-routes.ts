import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import type { Identity } from '../access/identity.js';
import { closing, tooManyAnswers } from '../errors/refusals.js';
import { serverLimits } from '../http/limits.js';
import {
  estimateSchema,
  planRequestSchema,
  planSchema,
  workloadRequestSchema,
} from '../schemas/workload.js';
import { type Answers, jsonAnswer, jsonContent, nothing } from './answers.js';
import { estimateExample, planExample, planRequestExample, workloadExample } from './examples.js';
import { type Answer, type Call, type Operation, operation } from './operation.js';

const tag = 'answers';

/** What of a workload the server reads for a client; throws where it reads nothing of it. */
export type ReadableFor = <T extends WorkloadRequest>(identity: Identity, workload: T) => T;

/** Estimates and plans take seconds and cores: only a few are made at once, for those who wait. */
export function answerOperations(
  answers: Answers,
  closed: AbortSignal,
  readable: ReadableFor,
): readonly Operation[] {
  let answering = 0;
  async function make(
    { signal }: Call,
    ask: (signal: AbortSignal) => Promise<object>,
  ): Promise<Answer> {
    if (answering >= serverLimits.answersAtOnce) throw tooManyAnswers();
    answering += 1;
    try {
      return jsonAnswer(await ask(AbortSignal.any([signal, closed])));
    } catch (error) {
      throw closed.aborted ? closing() : error;
    } finally {
      answering -= 1;
    }
  }
  return [
    operation({
      method: 'post',
      path: '/estimate',
      id: 'estimate',
      tag,
      needs: 'work',
      summary: 'What a workload will need',
      description: 'As "plimsoll estimate --json". It may take many seconds.',
      params: nothing,
      query: nothing,
      body: { schema: workloadRequestSchema, example: workloadExample },
      answers: { 200: jsonContent(estimateSchema, 'The estimate.', estimateExample) },
      errors: [422, 501, 503],
      handle({ body }, call) {
        const asked = readable(call.who.identity, body);
        return make(call, (signal) => answers.estimate(asked, signal));
      },
    }),
    operation({
      method: 'post',
      path: '/plan',
      id: 'plan',
      tag,
      needs: 'work',
      summary: 'Settings that make a workload fit',
      description: 'As "plimsoll plan --json". It may take many seconds.',
      params: nothing,
      query: nothing,
      body: { schema: planRequestSchema, example: planRequestExample },
      answers: {
        200: jsonContent(planSchema, 'The plan; "fits" says whether there is one.', planExample),
      },
      errors: [422, 501, 503],
      handle({ body }, call) {
        const asked = readable(call.who.identity, body);
        return make(call, (signal) => answers.plan(asked, signal));
      },
    }),
  ];
}
