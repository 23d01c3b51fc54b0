import { totalmem } from 'node:os';
import { join } from 'node:path';
import type { Settings } from '../../config/settings.js';
import type { Discovery } from '../../device/discover.js';
import { gpusAmong } from '../../estimate/cards/gpu-at-hand.js';
import type { EstimateWork } from '../../estimate/estimate-work.js';
import { warmTracer } from '../../estimate/trace/python-trace.js';
import type { Estimate } from '../../estimate/types.js';
import { answerKey } from '../../jobs/daemon/estimates/answer-key.js';
import { fileStates, pythonPackages } from '../../jobs/daemon/estimates/file-states.js';
import { keptProgram } from '../../jobs/daemon/estimates/kept-programs.js';
import { rememberedAnswers } from '../../jobs/daemon/estimates/remembered-answers.js';
import type { ConcurrencyLimit } from '../../jobs/daemon/limit-concurrency.js';
import { answerEstimate, prepareEstimate } from '../../plan/answers/answer-estimate.js';
import {
  answerPlan,
  answerPlanWithin,
  type PlanDocument,
  type PlanWithin,
  preparePlan,
  preparePlanWithin,
} from '../../plan/answers/answer-plan.js';
import {
  estimateAssumptions,
  knownNames,
  planAssumptions,
} from '../../plan/answers/assumptions.js';
import { KeptAnswers } from '../../plan/answers/kept-answers.js';
import { type AnswerMachine, chosenGpu } from '../../plan/answers/machine.js';
import { answerServing } from '../../plan/answers/serving/answer-serving.js';
import { isServing } from '../../plan/answers/serving/serving-request.js';
import { fieldWording, formWording } from '../../plan/answers/wording.js';
import type { PlanAnswerRequest, WorkloadRequest } from '../../plan/answers/workload-request.js';
import type { Plan } from '../../plan/fit/types.js';
import { accountPlace } from '../../run/launch/account-place.js';
import type { Account } from '../../run/types.js';
import type { Answers, AnswerWords } from '../routes/operation.js';

/**
 * Estimates and plans as the server and the daemon ask for them. The same one is made once, whichever of them
 * asks; what must be made waits for its turn where there is one.
 */
export interface ServeAnswers extends Answers {
  estimate(
    request: WorkloadRequest,
    signal: AbortSignal,
    words?: AnswerWords,
    withLimit?: ConcurrencyLimit,
  ): Promise<Estimate>;
  plan(
    request: PlanAnswerRequest,
    signal: AbortSignal,
    words?: AnswerWords,
    withLimit?: ConcurrencyLimit,
  ): Promise<PlanDocument>;
  /** Settings with which a job fits a device, of those that it can be told. */
  planWithin(
    request: WorkloadRequest,
    within: PlanWithin,
    signal: AbortSignal,
    withLimit?: ConcurrencyLimit,
  ): Promise<Plan>;
  /** Estimates a program, traced in its own Python, folder and environment. */
  program(
    asked: ProgramAsked,
    signal: AbortSignal,
    withLimit?: ConcurrencyLimit,
  ): Promise<Estimate>;
  /** Ends the Python that waits for questions. */
  close(): void;
}

/** A program as it would be started. */
export interface ProgramAsked {
  readonly command: readonly string[];
  readonly folder: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly timeoutSeconds: number;
  /** Whom it is traced as; left out, as who the server is. */
  readonly account?: Account | undefined;
  /** Told what its trace does, and how far it is, 0 to 1, where that is known. */
  readonly onProgress?: ((text: string, share?: number) => void) | undefined;
}

/** The places to look for Python, and for files that a request names. */
export interface AnswerPlace {
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  /** The home that keeps estimates of programs. */
  readonly home: string;
  readonly version: string;
}

export function serveAnswers(
  settings: Settings,
  discovery: Discovery,
  { environment, folder, home, version }: AnswerPlace,
  python: string | undefined,
  work?: EstimateWork,
): ServeAnswers {
  const place = { environment, folder, python };
  const stamp = async () => (await fileStates(await pythonPackages(place))).join('\n');
  const warm = warmTracer(place, stamp);
  const machine: AnswerMachine = {
    ...place,
    warm,
    gpus: settings.gpus,
    gpusHere: () => gpusAmong(discovery.devices),
    hostBytes: totalmem(),
    work,
    wording: fieldWording,
  };
  const inForms: AnswerMachine = { ...machine, wording: formWording };
  const speaking = (words: AnswerWords) => (words === 'form' ? inForms : machine);
  const estimates = rememberedAnswers<Estimate>(({ method }) => method === 'trace');
  const plans = rememberedAnswers<PlanDocument>(({ estimate }) => estimate.method === 'trace');
  const plansWithin = rememberedAnswers<Plan>(({ estimate }) => estimate.method === 'trace');
  const kept = new KeptAnswers(join(home, 'answers'));
  return {
    close: () => warm.close(),
    program: async ({ command, account, ...asked }, signal, withLimit = atOnce) => {
      const { gpu } = await chosenGpu(undefined, machine);
      const openPlace = account && (() => accountPlace(account));
      // No account gets the answer of another.
      const owner = account && `uid ${account.uid}`;
      const { estimate } = await keptProgram(
        { command, gpu },
        { ...asked, signal, work, wording: fieldWording, openPlace },
        { kept, version, owner, withLimit },
      );
      return estimate;
    },
    estimate: (request, signal, words = 'request', withLimit = atOnce) => {
      const speaker = speaking(words);
      if (isServing(request)) {
        return withLimit(() => answerServing(request, { ...speaker, signal }));
      }
      return estimates(
        {
          key: async () =>
            answerKey({ ...(await prepareEstimate(request, speaker)), words }, machine),
          make: (ending) =>
            withLimit(() => answerEstimate(request, { ...speaker, signal: ending })),
        },
        signal,
      );
    },
    plan: (request, signal, words = 'request', withLimit = atOnce) => {
      const speaker = speaking(words);
      return plans(
        {
          key: async () => answerKey({ ...(await preparePlan(request, speaker)), words }, machine),
          make: (ending) => withLimit(() => answerPlan(request, { ...speaker, signal: ending })),
        },
        signal,
      );
    },
    estimateAssumptions: (request, signal) => estimateAssumptions(request, { ...inForms, signal }),
    planAssumptions: (request, signal) => planAssumptions(request, { ...inForms, signal }),
    names: () => knownNames(machine),
    planWithin: (request, within, signal, withLimit = atOnce) =>
      plansWithin(
        {
          key: async () => answerKey(await preparePlanWithin(request, within, machine), machine),
          make: (ending) =>
            withLimit(() => answerPlanWithin(request, within, { ...machine, signal: ending })),
        },
        signal,
      ),
  };
}

const atOnce: ConcurrencyLimit = (work) => work();
