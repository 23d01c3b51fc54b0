import { z } from '@hono/zod-openapi';
import type { WorkloadRequest } from '../../plan/answers/workload-request.js';
import type { Identity } from '../access/permissions.js';
import { closing, tooManyAnswers } from '../errors/refusals.js';
import { serverLimits } from '../http/limits.js';
import {
  assumptionsSchema,
  estimateSchema,
  namesSchema,
  planRequestSchema,
  planSchema,
  workloadRequestSchema,
} from '../schemas/workload.js';
import {
  assumptionsExample,
  estimateExample,
  namesExample,
  planExample,
  planRequestExample,
  workloadExample,
} from './examples.js';
import {
  type Answer,
  type Answers,
  answerWords,
  type Call,
  jsonAnswer,
  jsonContent,
  noBody,
  nothing,
  type Operation,
  operation,
} from './operation.js';

const tag = 'answers';

const asked = z.strictObject({
  words: z.enum(answerWords).optional().openapi({
    description:
      'How errors and notes name what was asked for: as the request does, or as the forms of the dashboard.',
    example: 'request',
  }),
});

const assumed = {
  200: jsonContent(assumptionsSchema, 'The assumptions.', assumptionsExample),
};

/** Reads the files of a workload for a client; throws if it may read none of them. */
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
      query: asked,
      body: { schema: workloadRequestSchema, example: workloadExample },
      answers: { 200: jsonContent(estimateSchema, 'The estimate.', estimateExample) },
      errors: [422, 501, 503],
      handle({ body, query: { words } }, call) {
        const request = readable(call.who.identity, body);
        return make(call, (signal) => answers.estimate(request, signal, words));
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
      query: asked,
      body: { schema: planRequestSchema, example: planRequestExample },
      answers: {
        200: jsonContent(planSchema, 'The plan; "fits" says whether there is one.', planExample),
      },
      errors: [422, 501, 503],
      handle({ body, query: { words } }, call) {
        const request = readable(call.who.identity, body);
        return make(call, (signal) => answers.plan(request, signal, words));
      },
    }),
    operation({
      method: 'post',
      path: '/estimate/assumptions',
      id: 'estimateAssumptions',
      tag,
      needs: 'work',
      summary: 'What an estimate takes for what a request leaves out',
      description: 'It reads the model, and estimates nothing.',
      params: nothing,
      query: nothing,
      body: { schema: workloadRequestSchema, example: workloadExample },
      answers: assumed,
      errors: [422, 501, 503],
      handle({ body }, call) {
        const request = readable(call.who.identity, body);
        return make(call, async (signal) => ({
          assumptions: await answers.estimateAssumptions(request, signal),
        }));
      },
    }),
    operation({
      method: 'post',
      path: '/plan/assumptions',
      id: 'planAssumptions',
      tag,
      needs: 'work',
      summary: 'What a plan takes for what a request leaves out',
      description: 'It reads the model, and plans nothing. What the plan chooses is absent.',
      params: nothing,
      query: nothing,
      body: { schema: planRequestSchema, example: planRequestExample },
      answers: assumed,
      errors: [422, 501, 503],
      handle({ body }, call) {
        const request = readable(call.who.identity, body);
        return make(call, async (signal) => ({
          assumptions: await answers.planAssumptions(request, signal),
        }));
      },
    }),
    operation({
      method: 'get',
      path: '/names',
      id: 'names',
      tag,
      summary: 'Models and cards that a request can name',
      params: nothing,
      query: nothing,
      body: noBody,
      answers: { 200: jsonContent(namesSchema, 'The names.', namesExample) },
      async handle() {
        return jsonAnswer(await answers.names());
      },
    }),
  ];
}
