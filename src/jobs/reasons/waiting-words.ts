import { formatBytes } from '../../units/bytes.js';
import type { WaitingReason } from './types.js';

/**
 * Why a job waits, in words.
 *
 * @example
 * waitingReasonWords({ code: 'concurrency-limit', limit: 4 });
 * // 'The concurrent-job limit (4) is reached.'
 */
export function waitingReasonWords(reason: WaitingReason): string {
  switch (reason.code) {
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
