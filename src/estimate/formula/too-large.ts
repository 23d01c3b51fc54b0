import { Failure } from '../../failure.js';

/** Sizes that no memory holds: beyond 1 PiB a tensor, or what can be added up exactly. */
export function tooLarge(fact: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'too-large',
    fact: `${fact}, which no device holds.`,
    next: 'Check the sizes in the config, the batch and the length of the input.',
  });
}
