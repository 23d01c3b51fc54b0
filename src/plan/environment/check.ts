import { checkAllocConf } from './check-alloc-conf.js';
import { exportCommand } from './formats.js';
import { adviceReason, adviceValue, appliesTo } from './recommend.js';
import { type Advice, type EnvironmentRule, environmentRules, oldNames } from './rules.js';
import type { EnvironmentContext, EnvironmentFinding } from './types.js';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * What in an environment is not as the mode wants it: what must change first, then what could be
 * better. Values in the findings are text from outside: clean them before they go to a terminal.
 *
 * @example
 * checkEnvironment(
 *   { CUDA_LAUNCH_BLOCKING: '1' },
 *   { mode: 'production', vendor: 'nvidia', cores: 8, gpus: 1 },
 * )[0]?.kind; // 'debug-setting'
 */
export function checkEnvironment(
  environment: Environment,
  context: EnvironmentContext,
): EnvironmentFinding[] {
  const findings = [
    ...environmentRules.flatMap((rule) =>
      rule.reads === 'allocator'
        ? checkAllocConf(environment, context)
        : checkRule(rule, environment[rule.name], context),
    ),
    ...oldNameFindings(environment),
  ];
  return findings.toSorted((a, b) => rank(a) - rank(b));
}

function checkRule(
  rule: EnvironmentRule,
  value: string | undefined,
  context: EnvironmentContext,
): EnvironmentFinding[] {
  const { name } = rule;
  const advice = rule[context.mode];
  if (advice === undefined || (rule.vendor ?? context.vendor) !== context.vendor) return [];
  const reason = adviceReason(advice, context);
  if (advice.action === 'unset') {
    if (value === undefined) return [];
    return [
      { name, kind: 'debug-setting', severity: 'required', value, reason, fix: `unset ${name}` },
    ];
  }
  const wanted = adviceValue(advice, context);
  if (advice.action === 'consider' || wanted === undefined) return [];
  const fix = exportCommand(name, wanted);
  const severity = severityOf(advice);
  if (value === undefined || value === '') {
    const same =
      rule.otherwise !== undefined && meaning(rule, rule.otherwise) === meaning(rule, wanted);
    if (same || !appliesTo(rule, context)) return [];
    return [{ name, kind: 'missing', severity, reason, fix }];
  }
  if (meaning(rule, value) === meaning(rule, wanted)) return [];
  if (context.mode === 'production' && isForDebugging(rule, value, context)) {
    return [{ name, kind: 'debug-setting', severity: 'required', value, reason, fix }];
  }
  return appliesTo(rule, context) ? [{ name, kind: 'differs', severity, value, reason, fix }] : [];
}

function rank({ severity }: EnvironmentFinding): number {
  return severity === 'required' ? 0 : 1;
}

function severityOf({ required }: Advice): 'required' | 'advice' {
  return required ? 'required' : 'advice';
}

function isForDebugging(
  rule: EnvironmentRule,
  value: string,
  context: EnvironmentContext,
): boolean {
  const { debug, debugValues = [] } = rule;
  const usual = debug?.action === 'set' ? adviceValue(debug, context) : undefined;
  return [...debugValues, ...(usual === undefined ? [] : [usual])].some(
    (one) => meaning(rule, one) === meaning(rule, value),
  );
}

/** Two texts that the reader of the variable takes for the same have the same meaning. */
function meaning({ reads }: EnvironmentRule, text: string): string {
  const word = text.trim().toLowerCase();
  if (reads !== 'switch') return word;
  return /^(0|false|f|no|n|off|)$/.test(word) ? 'off' : 'on';
}

function oldNameFindings(environment: Environment): EnvironmentFinding[] {
  return oldNames.flatMap(([name, now]) => {
    const value = environment[name];
    if (value === undefined) return [];
    return [
      {
        name,
        kind: 'old-name',
        severity: 'advice',
        value,
        reason: `PyTorch calls it ${now} now.`,
        fix: `unset ${name}`,
      },
    ];
  });
}
