import { Failure } from '../../failure.js';
import { parseObject } from '../../files/own-file.js';

/** What a person adds to a submission, in the words of `ray job submit`. */
export interface RayOptions {
  readonly numCpus: number | 'default';
  readonly resources: Readonly<Record<string, number>>;
  readonly labels: Readonly<Record<string, string>>;
  readonly metadata: Readonly<Record<string, string>>;
}

const names = [
  '--entrypoint-num-cpus',
  '--entrypoint-resources',
  '--entrypoint-label-selector',
  '--metadata-json',
] as const;

/**
 * The options of `ray job submit` that make sense beside ours.
 *
 * @example
 * rayOptions(['--entrypoint-num-cpus=4']).numCpus; // 4
 */
export function rayOptions(words: readonly string[]): RayOptions {
  const given = new Map<string, string>();
  for (const word of words) {
    const at = word.indexOf('=');
    const name = at === -1 ? word : word.slice(0, at);
    if (!names.some((known) => known === name)) throw unknownOption(name);
    if (at === -1) throw badValue(name, '');
    given.set(name, word.slice(at + 1));
  }
  return {
    numCpus: cpusIn(given.get('--entrypoint-num-cpus')),
    resources: recordIn('--entrypoint-resources', given, isAmount),
    labels: recordIn('--entrypoint-label-selector', given, isText),
    metadata: recordIn('--metadata-json', given, isText),
  };
}

function cpusIn(text: string | undefined): number | 'default' {
  if (text === undefined) return 'default';
  if (/^\d{1,6}(\.\d{1,4})?$/.test(text)) return Number(text);
  throw badValue('--entrypoint-num-cpus', text);
}

function recordIn<Value>(
  name: string,
  given: ReadonlyMap<string, string>,
  isValue: (value: unknown) => value is Value,
): Readonly<Record<string, Value>> {
  const text = given.get(name);
  if (text === undefined) return {};
  const record = Object.entries(parseObject(text) ?? { '': undefined });
  const values = record.flatMap(([key, value]) => (isValue(value) ? [[key, value] as const] : []));
  if (values.length < record.length) throw badValue(name, text);
  return Object.fromEntries(values);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && Number.isFinite(value) && value >= 0;
}

function badValue(name: string, text: string): Failure {
  const example = name === names[0] ? '4' : `'{"name": ${name === names[1] ? '1' : '"text"'}}'`;
  return new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: `${name} cannot be "${text.slice(0, 100)}".`,
    next: `Write it as Ray does: ${name}=${example}`,
  });
}

function unknownOption(name: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-usage',
    fact: `"${name.slice(0, 100)}" cannot be passed to Ray.`,
    next: `Of the options of "ray job submit" these pass: ${names.join(', ')}. The share of the GPU comes from --memory or the estimate, variables from --env.`,
  });
}
