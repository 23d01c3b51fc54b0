import { BadAllocConf, parseAllocConf } from '../../estimate/allocator/alloc-conf.js';
import { checkArguments, object } from '../../units/arguments.js';
import { exportCommand } from './formats.js';
import {
  type Advice,
  adviceReason,
  adviceValue,
  allocConfReason,
  allocConfValue,
  appliesTo,
  type EnvironmentRule,
  environmentRules,
  oldNames,
} from './rules.js';
import type { EnvironmentContext, EnvironmentFinding } from './types.js';

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Compares an environment with the mode: required changes first, then improvements. Values in the
 * findings are foreign text: clean them before they go to a terminal.
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
  checkArguments(
    'checkEnvironment',
    { environment, context },
    { environment: object, context: object },
  );
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

/** The names that the allocator goes by, the one that every version knows first. */
const names = ['PYTORCH_CUDA_ALLOC_CONF', 'PYTORCH_ALLOC_CONF', 'PYTORCH_HIP_ALLOC_CONF'] as const;

/** Finds errors in the allocator's configuration. */
function checkAllocConf(
  environment: Readonly<Record<string, string | undefined>>,
  context: EnvironmentContext,
): EnvironmentFinding[] {
  const given = names.flatMap((name) => {
    const value = environment[name];
    return value ? [{ name, value }] : [];
  });
  const malformed = given.flatMap(({ name, value }) => malformedFinding(name, value));
  const [first] = given;
  if (malformed.length > 0) return [...conflicts(given), ...malformed];
  return [...conflicts(given), ...notAsRecommended(first, context)];
}

interface Given {
  readonly name: string;
  readonly value: string;
}

function conflicts([first, ...others]: readonly Given[]): EnvironmentFinding[] {
  return others.map(({ name, value }) => ({
    name,
    kind: 'conflict',
    severity: value === first?.value ? 'advice' : 'required',
    value,
    reason: `${first?.name} is set, too, and which of them holds depends on the version of PyTorch.`,
    fix: `unset ${name}`,
  }));
}

function malformedFinding(name: string, value: string): EnvironmentFinding[] {
  try {
    parseAllocConf(value);
    return [];
  } catch (error) {
    if (!(error instanceof BadAllocConf)) throw error;
    const reason = `PyTorch would refuse it, and the job would not start: ${error.problem}`;
    return [{ name, kind: 'malformed', severity: 'required', value, reason, fix: `unset ${name}` }];
  }
}

function notAsRecommended(
  given: Given | undefined,
  context: EnvironmentContext,
): EnvironmentFinding[] {
  const wanted = allocConfValue(context);
  if (wanted === undefined) return [];
  const reason = allocConfReason(context);
  if (given === undefined) {
    // Debug mode wants what holds anyway, unless there is a budget to keep.
    if (wanted === 'expandable_segments:False') return [];
    const name = names[0];
    const fix = exportCommand(name, wanted);
    return [{ name, kind: 'missing', severity: 'advice', reason, fix }];
  }
  const { name, value } = given;
  const options = optionsOf(value);
  // That backend is CUDA's own; it has no segments.
  if (options.get('backend') === 'cudaMallocAsync') return [];
  const missing = [...optionsOf(wanted)].filter(([key, text]) => {
    const now = options.get(key) ?? (key === 'expandable_segments' ? 'False' : '1');
    return key === 'per_process_memory_fraction' ? Number(now) > Number(text) : now !== text;
  });
  if (missing.length === 0) return [];
  const merged = [...new Map([...options, ...missing])].map((pair) => pair.join(':')).join(',');
  return [
    { name, kind: 'differs', severity: 'advice', value, reason, fix: exportCommand(name, merged) },
  ];
}

/** Of a text that was found well-formed. */
function optionsOf(text: string): Map<string, string> {
  const pairs = text.replaceAll(/\s/g, '').matchAll(/([^,:[\]]+):(\[[^[\]]*\]|[^,:[\]]+)/g);
  return new Map([...pairs].map((match) => [match[1] ?? '', match[2] ?? '']));
}
