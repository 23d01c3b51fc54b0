import { Failure } from '../failure.js';
import { type ClusterJob, hasClusterEnded } from './cluster.js';

export function unknownJob(id: string, engine: string, title: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'unknown-job',
    fact: `There is no job ${id} that plimsoll submitted to ${title} from this home.`,
    next: `"plimsoll jobs --engine ${engine}" lists them.`,
  });
}

export function unreadableJob(path: string, title: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'unreadable-job',
    fact: `${path}/job.json cannot be read.`,
    next: `Remove that folder; ${title} still has the job.`,
  });
}

/** What has ended cannot be cancelled; of what is unknown, it is tried. */
export function refuseEnded({ id, state }: ClusterJob): void {
  if (!hasClusterEnded(state) || state === 'unknown') return;
  throw new Failure({
    kind: 'input',
    code: 'job-has-ended',
    fact: `Job ${id} is ${state} already.`,
    next: 'Nothing needs to be done.',
  });
}
