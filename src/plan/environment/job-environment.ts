import { checkEnvironment } from './check.js';
import { environmentSettings } from './rules.js';
import type { EnvironmentContext, EnvironmentFinding } from './types.js';

/** The treatment of a job's environment: as production wants it, or unchanged. */
export const jobEnvironmentModes = ['production', 'keep'] as const;
export type JobEnvironmentMode = (typeof jobEnvironmentModes)[number];

type Variables = Readonly<Record<string, string>>;

/** The commands that may change the environment of a job. */
export const environmentChangers = ['run', 'submit', 'serve'] as const;

/** A variable that a job got with another value than its environment had. */
export interface EnvironmentChange {
  readonly name: string;
  /** null where it was not set. */
  readonly from: string | null;
  /** null where it was removed. */
  readonly to: string | null;
  /** The command that changed it. */
  readonly by: (typeof environmentChangers)[number];
  readonly reason: string;
}

/** How many times as long a step took on an H200 (bench/results/environment.md), by model. */
export const measuredCosts: Readonly<
  Record<string, { readonly low: number; readonly high: number }>
> = {
  CUDA_LAUNCH_BLOCKING: { low: 1.4, high: 2.1 },
  PYTORCH_NO_CUDA_MEMORY_CACHING: { low: 1.6, high: 4.7 },
};

/** There are fewer settings for debugging than that. */
const maxChanges = 100;

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
 * allocator settings. What `named` lists was asked for, and stays. A server only removes.
 *
 * @example
 * const { changes } = productionEnvironment({ CUDA_LAUNCH_BLOCKING: '1' }, context, { by: 'run' });
 * changes[0]?.to; // null
 */
export function productionEnvironment(
  variables: Variables,
  context: Omit<EnvironmentContext, 'mode'>,
  how: {
    readonly by: EnvironmentChange['by'];
    readonly named?: ReadonlySet<string>;
  },
): { readonly variables: Record<string, string>; readonly changes: readonly EnvironmentChange[] } {
  const { by, named = new Set() } = how;
  const changes: EnvironmentChange[] = debugFindings(variables, context)
    .filter(({ name }) => !named.has(name))
    .map(({ name, value = '', reason }) => ({ name, from: value, to: null, by, reason }));
  // Jobs of a server bring allocator settings of their own.
  if (by !== 'serve' && !allocatorNames.some((name) => variables[name] !== undefined)) {
    const setting = environmentSettings({ ...context, mode: 'production' }).find(({ name }) =>
      allocatorNames.includes(name),
    );
    if (setting?.action === 'set') {
      const { name, value, reason } = setting;
      changes.push({ name, from: null, to: value, by, reason });
    }
  }
  const changed: Record<string, string> = { ...variables };
  for (const { name, to } of changes) {
    if (to === null) delete changed[name];
    else changed[name] = to;
  }
  return { variables: changed, changes };
}

/** As a field that is left out where nothing was changed. */
export function changesOf(of: {
  readonly environmentChanges?: readonly EnvironmentChange[] | undefined;
}): { readonly environmentChanges?: readonly EnvironmentChange[] } {
  const { environmentChanges = [] } = of;
  return environmentChanges.length === 0 ? {} : { environmentChanges };
}

/** Reads `changes` that another command passed as text; undefined if it is something else. */
export function readChanges(text: string): readonly EnvironmentChange[] | undefined {
  const found = parsed(text);
  return Array.isArray(found) && found.length <= maxChanges && found.every(isChange)
    ? found
    : undefined;
}

function isChange(value: unknown): value is EnvironmentChange {
  const { name, from, to, by, reason } = { ...Object(value) };
  return (
    typeof name === 'string' &&
    isValue(from) &&
    isValue(to) &&
    environmentChangers.some((changer) => changer === by) &&
    typeof reason === 'string'
  );
}

function isValue(value: unknown): value is string | null {
  return value === null || typeof value === 'string';
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** One line for a person. */
export function changeWords({ name, from, to, by, reason }: EnvironmentChange): string {
  return to === null
    ? `${name}=${from} was removed from the environment by ${by}. ${reason}`
    : `${name}=${to} was set in the environment by ${by}. ${reason}`;
}
