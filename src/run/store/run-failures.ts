import { dirname } from 'node:path';
import { Failure } from '../../failure.js';

/** A file of a run does not hold what we write there. */
export function damagedRun(path: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'damaged-run',
    fact: `${path} is damaged.`,
    next: `If nothing of this run is running, remove its folder: rm -r ${dirname(path)}`,
  });
}

export function unknownRun(id: string, known: readonly string[]): Failure {
  const listed =
    known.length === 0 ? 'There is none.' : `There are ${known.slice(-10).join(', ')}.`;
  return new Failure({
    kind: 'input',
    code: 'unknown-run',
    fact: `There is no unfinished run ${id}.`,
    next: `Unfinished runs: ${listed}`,
  });
}
