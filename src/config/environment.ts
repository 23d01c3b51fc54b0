import { Failure } from '../failure.js';
import { nearest } from '../units/words.js';
import { checkConfig } from './check.js';
import type { JsonPath } from './json-places.js';
import { type Config, configJsonSchema } from './schema.js';
import { type SchemaLeaf, schemaLeaves, typesOf } from './schema-node.js';

/**
 * Variables that start with `PLIMSOLL_` and are no configuration: where things are, how to debug,
 * and what we hand to the programs we start (which may call `plimsoll` in turn).
 */
const otherVariables: ReadonlySet<string> = new Set([
  'PLIMSOLL_HOME',
  'PLIMSOLL_CONFIG',
  'PLIMSOLL_DEBUG',
  'PLIMSOLL_NODE',
  'PLIMSOLL_PYTHON',
  'PLIMSOLL_SERVER',
  'PLIMSOLL_PROMETHEUS',
  'PLIMSOLL_PROMETHEUS_AUTH',
  'PLIMSOLL_TOKEN',
  'PLIMSOLL_BATCH_SIZE',
  'PLIMSOLL_ACCUMULATION',
  'PLIMSOLL_CHECKPOINTING',
  'PLIMSOLL_PRECISION',
  'PLIMSOLL_DEVICE',
  'PLIMSOLL_ATTEMPT',
  'PLIMSOLL_OFFLOAD',
  'PLIMSOLL_TORCH_DEVICE',
  'PLIMSOLL_RUN_ID',
  'PLIMSOLL_RUN_DIR',
  'PLIMSOLL_NODE_RUN',
  'PLIMSOLL_BRIDGE',
  'PLIMSOLL_AUTO',
  'PLIMSOLL_MEMORY_BYTES',
  'PLIMSOLL_SPILL',
  'PLIMSOLL_SPILL_HEADROOM_BYTES',
  'PLIMSOLL_SNAPSHOT',
  'PLIMSOLL_TRAINERS',
  'PLIMSOLL_ALL_IMPORTS',
  'PLIMSOLL_PROGRESS',
  'PLIMSOLL_TEST_PYTHON',
  'PLIMSOLL_TEST_KILLS',
]);

/** Handed to the command that alerts are delivered to. */
const alertPrefix = 'PLIMSOLL_ALERT_';

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * The variables that claim to be configuration. An empty one counts as not set, as a shell script
 * that clears it would expect.
 */
export function configurationVariables(environment: Environment): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  for (const [name, text] of Object.entries(environment)) {
    if (!name.startsWith('PLIMSOLL_') || name.startsWith(alertPrefix)) continue;
    if (otherVariables.has(name) || text === undefined || text === '') continue;
    found.set(name, text);
  }
  return found;
}

/**
 * The variable that sets a key: `alerts.gpuWarningPercent` is `PLIMSOLL_ALERTS_GPU_WARNING_PERCENT`.
 *
 * @example
 * variableOf(['intervalSeconds']); // 'PLIMSOLL_INTERVAL_SECONDS'
 */
export function variableOf(path: readonly string[]): string {
  const words = path.map((key) =>
    key
      .replaceAll(/(?=[A-Z])/g, '_')
      .replaceAll('-', '_')
      .toUpperCase(),
  );
  return ['PLIMSOLL', ...words].join('_');
}

/** Each variable that is configuration, with the key it sets. */
export function configVariables(): ReadonlyMap<string, SchemaLeaf> {
  const leaves = schemaLeaves(configJsonSchema()).filter(({ path }) => path[0] !== '$schema');
  return new Map(leaves.map((leaf) => [variableOf(leaf.path), leaf]));
}

/** Turns the variables given into the configuration they stand for; a wrong one is a `Failure`. */
export function configFromVariables(given: ReadonlyMap<string, string>): Config {
  const variables = configVariables();
  const config = {};
  for (const [name, text] of given) {
    const leaf = variables.get(name);
    if (leaf === undefined) throw unknownVariable(name, [...variables.keys()]);
    put(config, leaf.path, valueOf(text, leaf));
  }
  return checkConfig(config, { ofValue: placeOf, ofKey: placeOf });
}

/** A list is set by one variable, whatever lies inside it. */
function placeOf(path: JsonPath): string {
  const list = path.findIndex((step) => typeof step === 'number');
  const keys = list === -1 ? path : path.slice(0, list);
  return `the variable ${variableOf(keys.filter((step) => typeof step === 'string'))}`;
}

/** A text that cannot be read as the key wants it stays a text, so that the check reports it. */
function valueOf(text: string, { node }: SchemaLeaf): unknown {
  const types = typesOf(node);
  if (types.includes('boolean') && /^(true|false)$/i.test(text))
    return text.toLowerCase() === 'true';
  const isNumber = types.includes('number') || types.includes('integer');
  if (isNumber && /^\s*-?[\d.]+(e[+-]?\d+)?\s*$/i.test(text)) return Number(text);
  if (types.includes('array')) return listOf(text);
  return text;
}

/** A JSON list, or words separated by commas or spaces. */
function listOf(text: string): unknown {
  if (!text.trimStart().startsWith('[')) return text.split(/[\s,]+/).filter((word) => word !== '');
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function put(target: object, path: readonly string[], value: unknown): void {
  const [key = '', ...rest] = path;
  if (rest.length === 0) {
    Reflect.set(target, key, value);
    return;
  }
  const child: object = Reflect.get(target, key) ?? {};
  Reflect.set(target, key, child);
  put(child, rest, value);
}

function unknownVariable(name: string, known: readonly string[]): Failure {
  const meant = nearest(name, known);
  return new Failure({
    kind: 'input',
    code: 'unknown-variable',
    fact: `The variable ${name} is not a variable that plimsoll reads.`,
    next:
      meant === undefined
        ? `Unset it; the variables are: ${known.join(', ')}.`
        : `Did you mean ${meant}? If not, unset it.`,
  });
}
