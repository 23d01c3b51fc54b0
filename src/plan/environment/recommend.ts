import { checkArguments, number, oneOf, text, whole } from '../../units/arguments.js';
import { type Advice, type EnvironmentRule, environmentRules } from './rules.js';
import { type EnvironmentContext, type EnvironmentSetting, environmentModes } from './types.js';

/**
 * What to set for a job, and why.
 *
 * @example
 * environmentSettings({ mode: 'debug', vendor: 'nvidia', cores: 8, gpus: 1 })[0];
 * // { name: 'CUDA_LAUNCH_BLOCKING', action: 'set', value: '1', reason: 'Each launch waits ...' }
 */
export function environmentSettings(context: EnvironmentContext): EnvironmentSetting[] {
  checkArguments('environmentSettings', { ...Object(context) }, contextRules);
  return environmentRules
    .filter((rule) => appliesTo(rule, context))
    .flatMap((rule) => {
      const advice = rule[context.mode];
      return advice === undefined ? [] : settingOf(rule.name, advice, context);
    });
}

const contextRules = {
  mode: oneOf(environmentModes),
  vendor: text,
  cores: number,
  gpus: whole(0),
};

/** Whether a job on this machine has any use for the variable. */
export function appliesTo(rule: EnvironmentRule, { vendor, gpus }: EnvironmentContext): boolean {
  return (rule.vendor ?? vendor) === vendor && (!rule.severalGpus || gpus > 1);
}

/** The value in words that a shell takes; undefined where there is none to set. */
export function adviceValue({ value }: Advice, context: EnvironmentContext): string | undefined {
  return typeof value === 'function' ? value(context) : value;
}

export function adviceReason({ reason }: Advice, context: EnvironmentContext): string {
  return typeof reason === 'function' ? reason(context) : reason;
}

function settingOf(
  name: string,
  advice: Advice,
  context: EnvironmentContext,
): EnvironmentSetting[] {
  const { action } = advice;
  const reason = adviceReason(advice, context);
  if (action === 'unset') return [{ name, action, reason }];
  const value = adviceValue(advice, context);
  return value === undefined ? [] : [{ name, action, value, reason }];
}
