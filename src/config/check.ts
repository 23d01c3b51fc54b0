import { Failure } from '../failure.js';
import { nearest } from '../units/words.js';
import type { JsonPath } from './json-places.js';
import { type Config, configJsonSchema, configSchema } from './schema.js';
import { allowedWords, nodeAt } from './schema-node.js';

/** How to name a place in what is being checked: a line in a file, or a variable. */
export interface Places {
  ofValue(path: JsonPath): string;
  ofKey(path: JsonPath): string;
}

/** Longer values are cut in messages: a person wants to recognise it, not to read it all. */
const shownLength = 60;

/** Checks a value against the schema; the first thing wrong becomes one `Failure`. */
export function checkConfig(value: unknown, places: Places): Config {
  const parsed = configSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  const schema = configJsonSchema();
  for (const issue of parsed.error.issues) {
    const path = issue.path.filter((step) => typeof step !== 'symbol');
    if (issue.code !== 'unrecognized_keys') {
      throw badValue(path, valueAt(value, path), places);
    }
    const known = Object.keys(nodeAt(schema, path)?.properties ?? {});
    for (const key of issue.keys) throw unknownKey([...path, key], key, known, places);
  }
  throw badValue([], value, places);
}

function unknownKey(
  path: JsonPath,
  key: string,
  known: readonly string[],
  places: Places,
): Failure {
  const meant = nearest(key, known);
  return new Failure({
    kind: 'input',
    code: 'unknown-key',
    fact: `${places.ofKey(path)}: there is no key "${path.join('.')}".`,
    next: meant === undefined ? `The keys are: ${known.join(', ')}.` : `Did you mean "${meant}"?`,
  });
}

function badValue(path: JsonPath, value: unknown, places: Places): Failure {
  const node = nodeAt(configJsonSchema(), path);
  const name = path.length === 0 ? 'the whole' : path.join('.');
  return new Failure({
    kind: 'input',
    code: 'bad-config-value',
    fact: `${places.ofValue(path)}: ${name} is ${shown(value)}.`,
    next: node === undefined ? 'Correct it.' : `It takes ${allowedWords(node)}.`,
  });
}

function valueAt(value: unknown, path: JsonPath): unknown {
  return path.reduce<unknown>((current, step) => Reflect.get(Object(current), step), value);
}

function shown(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > shownLength ? `${text.slice(0, shownLength)}...` : text;
}
