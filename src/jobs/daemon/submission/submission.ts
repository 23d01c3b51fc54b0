import { isServing } from '../../../plan/answers/serving/serving-request.js';
import type { WorkloadRequest } from '../../../plan/answers/workload-request.js';
import { changesOf } from '../../../plan/environment/job-environment.js';
import { bytesToReserve } from '../../../plan/fit/fit.js';
import type { Known } from '../../../units/known.js';
import { type MeasuredRun, workloadKey } from '../../corrections.js';
import {
  changeableSettingsOf,
  type Degraded,
  degradedBy,
  programPrecision,
} from '../../degraded.js';
import { leastOf, type SpillCurve, usualSlowdown } from '../../elastic.js';
import { judgeFit, largestOffer } from '../../fit-verdict.js';
import type { ElasticDetails, JobDetails, NeedEvidence, NewJob } from '../../store/records.js';
import type { DaemonOptions } from '../options.js';
import type { JobRequest } from '../types.js';
import { type JudgedNeed, judgeNeed } from './need.js';
import {
  canBeTraced,
  type EstimateOfProgram,
  type ProgramNeed,
  programNeed,
} from './program-need.js';

/** More than fit on a line say nothing. */
const nameCharacters = 60;

export interface SubmissionParts {
  /** The load lines of the devices that jobs are placed on. */
  readonly lines: readonly { readonly id: string; readonly loadLineBytes: number }[];
  readonly runsOf: (workloadKey: string) => readonly MeasuredRun[];
  readonly estimate: DaemonOptions['estimate'];
  readonly plan: DaemonOptions['plan'];
  /** Left out where programs cannot be traced. `later`: a job whose program is to be traced is kept without. */
  readonly estimateProgram?: EstimateOfProgram | 'later' | undefined;
  readonly signal: AbortSignal;
  readonly nowMs: number;
  /** How long a job may wait that does not say. */
  readonly waitSeconds: number | undefined;
}

/** A job before it is known whose it is. */
export interface MadeJob extends Omit<NewJob, 'owner'> {
  readonly details: JobDetails & { readonly evidence: NeedEvidence };
}

/** The workload of a job as its program runs it: in the precision that the program is told. */
export function asProgramRuns(workload: WorkloadRequest): WorkloadRequest {
  if (isServing(workload)) return workload;
  return { ...workload, precision: workload.precision ?? programPrecision };
}

/** A request as the job that is kept: what it needs and why, or why it is refused. */
export async function newJobOf(request: JobRequest, parts: SubmissionParts): Promise<MadeJob> {
  const { lines, estimate, nowMs } = parts;
  const { command, memoryBytes, workload, gpus = 1, priority = 0 } = request;
  const offerBytes = largestOffer(lines, { gpus }) ?? 0;
  const found =
    memoryBytes === undefined && workload !== undefined && estimate !== undefined
      ? await estimate(asProgramRuns(workload), parts.signal)
      : undefined;
  const estimated: Known<number> =
    found === undefined ? 'unknown' : bytesToReserve(found, offerBytes);
  const judged = (settings: Readonly<Record<string, unknown>>, bytes: Known<number>) => {
    const key = workloadKey({
      command,
      workload: { ...workload },
      // Bytes of the host tell nothing of bytes of a GPU.
      settings: { ...settings, on: isOnHost(parts, gpus) ? 'host' : 'gpu' },
      gpus,
    });
    const runs = parts.runsOf(key);
    const need = judgeNeed({
      gpus,
      statedBytes: memoryBytes,
      estimatedBytes: bytes,
      runs,
      offerBytes,
    });
    return { key, ...need };
  };
  // The name is part of the key under which runs were measured.
  const batchSize = { batchSize: request.batch };
  const stated = judged(batchSize, estimated);
  const trace =
    stated.need.basis === 'unknown' && !isOnHost(parts, gpus) ? parts.estimateProgram : undefined;
  const isLater = trace === 'later' && canBeTraced(request);
  const traced =
    trace === undefined || trace === 'later'
      ? undefined
      : await programNeed(request, offerBytes, trace, parts.signal);
  const judgedFirst = traced ? afterTrace(judged(batchSize, traced.bytes), traced) : stated;
  const elastic = elasticOf(request, judgedFirst, traced?.curve ?? found ?? {});
  const first = cappedTo(offerBytes, judgedFirst, elastic);
  const timeoutSeconds = request.timeoutSeconds ?? parts.waitSeconds;
  const job = {
    name: request.name ?? nameOf(command),
    command,
    priority,
    submission: request.submission,
    deadlineMs: timeoutSeconds === undefined ? undefined : nowMs + timeoutSeconds * 1000,
  };
  const details = {
    cwd: request.cwd,
    env: request.env,
    ...changesOf(request),
    workload: workload === undefined ? undefined : { ...workload },
    batch: request.batch,
    timeoutSeconds: request.timeoutSeconds,
    estimateTimeoutSeconds: request.estimateTimeoutSeconds,
    elastic,
  };
  const kept = ({ need, evidence, alone, key }: JudgedNeed & { key: string }) => ({
    ...job,
    need,
    alone,
    workloadKey: key,
    details: { ...details, evidence },
  });
  // It waits from when its need is known.
  if (isLater) return { ...kept(first), deadlineMs: undefined, estimating: true };
  const smaller = await degradedFor(request, first, offerBytes, parts);
  const verdict = judgeFit(first.need, lines, smaller);
  if (verdict.verdict === 'fits') return kept(first);
  if (verdict.verdict === 'refused') {
    const misses = missesPlaceholders(request, first, offerBytes);
    const refused =
      misses && verdict.reason.code === 'too-large'
        ? { ...verdict.reason, missesPlaceholders: true }
        : verdict.reason;
    return { ...kept(first), refused };
  }
  // With other settings it is another workload, which may have been measured.
  const second = judged({ ...verdict.settings }, verdict.need.bytes);
  const again = judgeFit(second.need, lines);
  if (again.verdict === 'refused') return { ...kept(second), refused: again.reason };
  const whole = kept(second);
  return {
    ...whole,
    details: { ...whole.details, settings: verdict.settings, degradedReason: verdict.reason },
  };
}

/** What an elastic job accepts, and the least that it may start with, as far as that is known. */
function elasticOf(
  { elastic }: JobRequest,
  { need, alone }: JudgedNeed,
  curve: SpillCurve,
): ElasticDetails | undefined {
  if (elastic === undefined) return undefined;
  const { slowdown = usualSlowdown, leastBytes } = elastic;
  const foundBytes = leastOf({ slowdown, leastBytes }, alone ? 'unknown' : need.bytes, curve);
  return { slowdown, leastBytes, foundBytes };
}

/** An elastic job that needs more than any device has takes all of one, if that is enough for it. */
function cappedTo<Judged extends JudgedNeed>(
  offerBytes: number,
  judged: Judged,
  elastic: ElasticDetails | undefined,
): Judged {
  const { need } = judged;
  const least = elastic?.foundBytes ?? Infinity;
  if (need.bytes <= offerBytes || least > offerBytes) return judged;
  return { ...judged, need: { ...need, bytes: offerBytes } };
}

/** A plan for a job that does not fit, of settings that its program can be told. */
async function degradedFor(
  request: JobRequest,
  first: JudgedNeed,
  offerBytes: number,
  { plan, signal }: SubmissionParts,
): Promise<Degraded | undefined> {
  const { command, workload } = request;
  if (!isPlannable(request, first, offerBytes) || plan === undefined) return undefined;
  const mayChange = changeableSettingsOf(command);
  if (workload === undefined || mayChange.length === 0) return undefined;
  const found = await plan(workload, { capacityBytes: offerBytes, mayChange }, signal);
  return degradedBy(found, workload, offerBytes);
}

/** Too large by its estimate or its runs. A script makes its own batch, and a rule of thumb knows none. */
function isPlannable({ workload }: JobRequest, { need }: JudgedNeed, offerBytes: number): boolean {
  const tooLarge = need.bytes > offerBytes && offerBytes > 0;
  return tooLarge && need.basis !== 'stated' && workload?.model !== undefined;
}

/** Whether a plan could make it fit, if only its command had a place for other settings. */
function missesPlaceholders(request: JobRequest, first: JudgedNeed, offerBytes: number): boolean {
  return (
    isPlannable(request, first, offerBytes) && changeableSettingsOf(request.command).length === 0
  );
}

/** Says that the figure is from a trace, or why the trace failed. */
function afterTrace<Judged extends JudgedNeed>(judged: Judged, { failure }: ProgramNeed): Judged {
  const { reason } = judged.evidence;
  const updated =
    reason.code === 'estimated'
      ? { ...reason, traced: true }
      : { code: 'no-estimate' as const, traceFailure: failure };
  return { ...judged, evidence: { ...judged.evidence, reason: updated } };
}

function isOnHost({ lines }: SubmissionParts, gpus: number): boolean {
  return gpus === 0 || lines.every(({ id }) => id === 'host');
}

/** The program and what it is given, as far as it fits on a line. */
export function nameOf(command: readonly string[]): string {
  const [program = '', ...rest] = command;
  const words = [program.split('/').at(-1) ?? program, ...rest].join(' ').replaceAll(/\s+/g, ' ');
  return words.length <= nameCharacters ? words : `${words.slice(0, nameCharacters - 1)}…`;
}
