import { measuredCosts } from '../plan/environment/job-environment.js';
import type { EnvironmentFinding } from '../plan/environment/types.js';
import { type Advice, type Saving, unknownSaving } from './advice.js';

/** What must change, one advice each; what could be better, together. */
export function environmentAdvice(findings: readonly EnvironmentFinding[]): readonly Advice[] {
  const required = findings.filter(({ severity }) => severity === 'required');
  const others = findings.filter(({ severity }) => severity === 'advice');
  return [
    ...required.map(({ name, value, reason, fix, kind }) => ({
      code: kind,
      fact: `${name}${value === undefined ? ' is not set' : `=${value}`}: ${reason}`,
      steps: [fix],
      saves: savingOf(name, kind),
    })),
    ...(others.length === 0 ? [] : [together(others)]),
  ];
}

/** A factor of 2 means that half of the time is saved. */
function savingOf(name: string, kind: EnvironmentFinding['kind']): Saving {
  const cost = measuredCosts[name];
  if (cost === undefined || kind !== 'debug-setting') return unknownSaving;
  return {
    kind: 'time',
    lowShare: 1 - 1 / cost.low,
    highShare: 1 - 1 / cost.high,
    source: 'measured',
    where: 'on an H200',
  };
}

function together(findings: readonly EnvironmentFinding[]): Advice {
  const names = findings.map(({ name }) => name).join(', ');
  return {
    code: 'environment',
    fact: `Recommended for production and not set so: ${names}.`,
    steps: ['source <(plimsoll env --mode production --format shell)'],
    saves: unknownSaving,
  };
}
