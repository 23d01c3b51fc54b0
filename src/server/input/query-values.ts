import type { SchemaNode } from '../../config/schema-node.js';
import { Failure } from '../../failure.js';

/**
 * What stands behind the `?` of an address, each value as what its option takes: numbers as numbers,
 * lists by their commas. What cannot be read as that stays text, and the check says so.
 */
export function queryValues(
  query: URLSearchParams,
  { properties = {} }: SchemaNode,
): Record<string, unknown> {
  const values = new Map<string, unknown>();
  for (const [name, text] of query) {
    if (values.has(name)) throw saidTwice(name);
    values.set(name, typedValue(text, Object.hasOwn(properties, name) ? properties[name] : {}));
  }
  return Object.fromEntries(values);
}

function typedValue(text: string, node: unknown): unknown {
  const type = typeof node === 'object' && node !== null && 'type' in node ? node.type : 'string';
  if (type === 'array') return text.split(',');
  if (type === 'integer' && /^-?\d{1,16}$/.test(text)) return Number(text);
  if (type === 'number' && /^-?\d{1,16}(\.\d{1,16})?$/.test(text)) return Number(text);
  return text;
}

function saidTwice(name: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: `The option ${JSON.stringify(name.slice(0, 60))} is given twice in the address.`,
    next: 'Leave one out; several values of one option are joined by commas.',
  });
}
