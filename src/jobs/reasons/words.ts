import { settingsWords } from '../../run/words.js';
import { formatBytes } from '../../units/bytes.js';
import { isKnown } from '../../units/known.js';
import { degradedSettingsWords } from '../degraded.js';
import type {
  DegradedReason,
  EstimatingReason,
  JobReason,
  OveruseWarning,
  ProgramEnd,
  WaitingReason,
} from './types.js';

/**
 * Why a job is in its state, in words: the one place that makes them, for terminal, page and API.
 *
 * @example
 * reasonWords({ code: 'cancelled', during: 'running' }); // 'Cancelled.'
 */
export function reasonWords(reason: JobReason | DegradedReason | OveruseWarning): string {
  switch (reason.code) {
    case 'no-device':
      return 'There is no device for jobs.';
    case 'too-few-gpus': {
      const { askedGpus, foundGpus } = reason;
      const there = foundGpus === 0 ? 'is none' : foundGpus === 1 ? 'is 1' : `are ${foundGpus}`;
      return `It asks for ${askedGpus} GPUs at once; there ${there}.`;
    }
    case 'too-large':
      return tooLargeWords(reason);
    case 'over-quota': {
      const may = `${reason.owner} may reserve ${formatBytes(reason.maxMemoryBytes)} at the same time.`;
      return reason.basis === 'unknown'
        ? `Nothing is known of its memory, so it would get a whole device (${formatBytes(reason.bytes)}); ${may} State its memory.`
        : `It needs ${formatBytes(reason.bytes)} (${reason.basis}); ${may}`;
    }
    case 'degraded':
      return `As asked, it ${needWords(reason)} It runs with ${degradedSettingsWords(reason.settings)} instead, which needs ${formatBytes(reason.degradedBytes)} (estimated).`;
    case 'cancelled':
      return reason.during === 'running' ? 'Cancelled.' : 'Cancelled while it waited.';
    case 'expired':
      return 'It waited as long as it was allowed to, and never started.';
    case 'recovered':
      return `It ran out of memory ${times(reason.times)} and was recovered with ${settingsWords(reason.settings)}.`;
    case 'out-of-memory': {
      const { askedBytes, peakBytes } = reason;
      const asked = isKnown(askedBytes)
        ? `; the last time it asked for ${formatBytes(askedBytes)}`
        : '';
      const held = isKnown(peakBytes) ? ` when it held ${formatBytes(peakBytes)}` : '';
      return `It ran out of memory ${times(reason.times)}${asked}${held}.`;
    }
    case 'exited':
      return exitWords(reason);
    case 'interrupted':
      return `It was interrupted from outside. ${exitWords(reason)}`;
    case 'over-reservation':
      return `Ended: ${overuseWords(reason)}, and it was warned.`;
    case 'over-reservation-warning': {
      const { graceSeconds } = reason;
      const next =
        graceSeconds === null ? '.' : `. If it still does in ${graceSeconds} s, it is ended.`;
      return `${overuseWords(reason)}${next}`;
    }
    case 'not-started':
    case 'lost':
      return reason.message;
    case 'damaged-record':
      return `Its row in the store is damaged (${reason.column}): it cannot be run or shown. Submit it again.`;
    case 'earlier-text':
      return reason.text;
    default:
      return reason satisfies never;
  }
}

function tooLargeWords(reason: Extract<JobReason, { code: 'too-large' }>): string {
  const { smallest, missesPlaceholders } = reason;
  const still =
    smallest === undefined
      ? ''
      : ` With ${degradedSettingsWords(smallest.settings)}, the smallest settings that its command takes, it still needs ${formatBytes(smallest.bytes)}.`;
  const hint =
    missesPlaceholders === true
      ? ' With {batch_size} and {accumulation} in its command it could be given smaller batches.'
      : '';
  return `It ${needWords(reason)}${still}${hint}`;
}

function needWords({
  bytes,
  basis,
  gpus,
  largestBytes,
}: Extract<JobReason, { code: 'too-large' }> | Extract<DegradedReason, { code: 'degraded' }>) {
  const places = gpus > 1 ? `each of ${gpus} GPUs` : 'any device';
  return `needs ${formatBytes(bytes)} (${basis}); the largest reservation ${places} allows is ${formatBytes(largestBytes)}.`;
}

function overuseWords(of: { readonly usedBytes: number; readonly reservedBytes: number }): string {
  return `It uses ${formatBytes(of.usedBytes)} of a device; it reserved ${formatBytes(of.reservedBytes)}`;
}

function exitWords({ exitCode, signal }: ProgramEnd): string {
  if (!isKnown(exitCode)) return 'How it ended is unknown.';
  return signal === null
    ? `It ended with exit code ${exitCode}.`
    : `It was ended by ${signal} (exit code ${exitCode}).`;
}

function times(n: number): string {
  return n === 1 ? 'once' : `${n} times`;
}

/**
 * Why a job waits, in words.
 *
 * @example
 * waitingReasonWords({ code: 'concurrency-limit', limit: 4 });
 * // 'The concurrent-job limit (4) is reached.'
 */
export function waitingReasonWords(reason: WaitingReason): string {
  switch (reason.code) {
    case 'estimating':
      return estimatingWords(reason);
    case 'concurrency-limit':
      return `The concurrent-job limit (${reason.limit}) is reached.`;
    case 'job-quota': {
      const { owner, maxJobs, runningJobs } = reason;
      const jobs = maxJobs === 1 ? '1 job' : `${maxJobs} jobs`;
      return `Quota: ${owner} may run ${jobs} at the same time, and ${runningJobs} of them ${runningJobs === 1 ? 'runs' : 'run'}.`;
    }
    case 'memory-quota':
      return `Quota: it needs ${formatBytes(reason.bytes)}; ${reason.owner} may reserve ${formatBytes(reason.maxMemoryBytes)} at the same time and has ${formatBytes(reason.reservedBytes)}.`;
    case 'device-not-read':
      return 'A device has not been read yet.';
    case 'starting':
      return 'It is about to start.';
    case 'behind-job':
      return `It would fit, but would take room from job ${reason.jobId}, whose turn comes first.`;
    case 'memory-in-use':
      return memoryWords(reason, '');
    case 'other-processes':
      return memoryWords(reason, ' Other processes are using the memory.');
    case 'memory-being-released':
      return memoryWords(reason, ' Memory of a job that ended has not been freed yet.');
    case 'jobs-ahead':
      return reason.jobs === 1 ? '1 job is before it.' : `${reason.jobs} jobs are before it.`;
    default:
      return reason satisfies never;
  }
}

function estimatingWords({ ahead, doing, share }: EstimatingReason): string {
  if (ahead > 0) {
    return `Its memory will be estimated after ${ahead} other ${ahead === 1 ? 'job' : 'jobs'} of its owner.`;
  }
  if (!isKnown(doing)) return 'Its memory is being estimated.';
  const far = isKnown(share) ? ` (${Math.floor(share * 100)} %)` : '';
  return `Its memory is being estimated: ${doing.charAt(0).toLowerCase()}${doing.slice(1)}${far}.`;
}

function memoryWords(
  reason: Extract<WaitingReason, { freeBytes: number }>,
  because: string,
): string {
  const { bytes, devices, wholeDevice, freeBytes, keptDevices } = reason;
  const places = devices === 1 ? 'a device' : `${devices} devices at once`;
  const needs = wholeDevice
    ? 'a whole device for its first run'
    : `${formatBytes(bytes)} on ${places}`;
  const verb = keptDevices.length === 1 ? 'is' : 'are';
  const kept = keptDevices.length === 0 ? '' : ` ${keptDevices.join(' and ')} ${verb} kept for it.`;
  return `It needs ${needs}; the most that is free is ${formatBytes(freeBytes)}.${because}${kept}`;
}
