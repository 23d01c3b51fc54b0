import { parseAllocConf } from '../../estimate/allocator/alloc-conf.js';
import { BadAllocConf } from '../../estimate/allocator/alloc-conf-values.js';
import { allocConfReason, allocConfValue } from './alloc-conf-value.js';
import { exportCommand } from './formats.js';
import type { EnvironmentContext, EnvironmentFinding } from './types.js';

/** The names that the allocator goes by, the one that every version knows first. */
const names = ['PYTORCH_CUDA_ALLOC_CONF', 'PYTORCH_ALLOC_CONF', 'PYTORCH_HIP_ALLOC_CONF'] as const;

/** What is wrong with how the allocator is configured. */
export function checkAllocConf(
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
