import { checkEnvironment } from './check.js';
import { environmentSettings } from './recommend.js';
import type { EnvironmentContext, EnvironmentFinding } from './types.js';

/** What to do with the environment of a job: as production wants it, or as it is. */
export const jobEnvironmentModes = ['production', 'keep'] as const;
export type JobEnvironmentMode = (typeof jobEnvironmentModes)[number];

type Variables = Readonly<Record<string, string>>;

export interface EnvironmentChange {
  readonly name: string;
  /** `unset` where it was not there. */
  readonly from: string;
  /** `unset` where it was taken out. */
  readonly to: string;
  readonly reason: string;
}

/** How many times as long a step took on an H200 (bench/results/2026-11-16-h200-debug-environment.md), by model. */
export const measuredCosts: Readonly<
  Record<string, { readonly low: number; readonly high: number }>
> = {
  CUDA_LAUNCH_BLOCKING: { low: 1.4, high: 2.1 },
  PYTORCH_NO_CUDA_MEMORY_CACHING: { low: 1.6, high: 4.7 },
};

/** Names under which the allocator is set, today's and the former one. */
const allocatorNames = ['PYTORCH_ALLOC_CONF', 'PYTORCH_CUDA_ALLOC_CONF'];

/**
 * Settings for debugging, which no production job should have; with what each costs where that was
 * measured.
 *
 * @example
 * debugFindings({ CUDA_LAUNCH_BLOCKING: '1' }, { vendor: 'nvidia', cores: 8, gpus: 1 })[0]?.name;
 */
export function debugFindings(
  variables: Variables,
  context: Omit<EnvironmentContext, 'mode'>,
): EnvironmentFinding[] {
  return checkEnvironment(variables, { ...context, mode: 'production' })
    .filter(({ kind }) => kind === 'debug-setting')
    .map(withCost);
}

function withCost(finding: EnvironmentFinding): EnvironmentFinding {
  const cost = measuredCosts[finding.name];
  if (cost === undefined) return finding;
  const longer = `a step took ${cost.low} to ${cost.high} times as long on an H200`;
  return { ...finding, reason: `${finding.reason} Measured: ${longer}.` };
}

/**
 * The environment of a production job: without settings for debugging, and with the recommended
 * allocator settings. What `named` lists was asked for, and stays.
 *
 * @example
 * productionEnvironment({ CUDA_LAUNCH_BLOCKING: '1' }, context, new Set()).changes[0]?.to; // 'unset'
 */
export function productionEnvironment(
  variables: Variables,
  context: Omit<EnvironmentContext, 'mode'>,
  named: ReadonlySet<string>,
  /** Of a server, whose jobs bring allocator settings of their own, only debug settings go. */
  setAllocator = true,
): { readonly variables: Record<string, string>; readonly changes: readonly EnvironmentChange[] } {
  const changes: EnvironmentChange[] = debugFindings(variables, context)
    .filter(({ name }) => !named.has(name))
    .map(({ name, value = '', reason }) => ({ name, from: value, to: 'unset', reason }));
  if (setAllocator && !allocatorNames.some((name) => variables[name] !== undefined)) {
    const setting = environmentSettings({ ...context, mode: 'production' }).find(({ name }) =>
      allocatorNames.includes(name),
    );
    if (setting?.action === 'set') {
      const { name, value, reason } = setting;
      changes.push({ name, from: 'unset', to: value, reason });
    }
  }
  const changed: Record<string, string> = { ...variables };
  for (const { name, to } of changes) {
    if (to === 'unset') delete changed[name];
    else changed[name] = to;
  }
  return { variables: changed, changes };
}

/** One line for a person, and for a report. */
export function changeWords({ name, from, to, reason }: EnvironmentChange): string {
  return to === 'unset'
    ? `${name}=${from} was taken out of the environment. ${reason}`
    : `${name}=${to} was set in the environment. ${reason}`;
}
