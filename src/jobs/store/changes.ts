import { Failure } from '../../failure.js';
import { hasEnded, type Job } from '../types.js';

export function unknownJob(id: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'unknown-job',
    fact: `There is no job "${id.slice(0, 40)}".`,
    next: 'Run "plimsoll jobs" to see them.',
  });
}

/** What was asked of a job does not go with the state it is in. */
export function badChange({ id, state }: Job, wanted: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-change',
    fact: `Job ${id} is ${state}: it cannot take ${wanted === 'an attempt' ? wanted : `the state "${wanted}"`}.`,
    next: hasEnded(state) ? 'It has ended; submit it again.' : 'Look at it again first.',
  });
}
