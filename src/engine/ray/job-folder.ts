import { join } from 'node:path';
import { Failure } from '../../failure.js';
import { parseObject } from '../../files/own-file.js';
import type { Known } from '../../units/known.js';
import {
  isKeptEnd,
  isKeptOrder,
  isTexts,
  JobFolder,
  type JsonObject,
  jobPaths,
  type KeptAttempt,
  type KeptEnd,
  type KeptForms,
  type KeptOrder,
  newJobPath,
  objectIn,
} from '../job-folder.js';
import type { RayOffer } from './nodes.js';
import type { RayRequest } from './request.js';

export interface RayOrder extends KeptOrder {
  /** Addresses of the dashboard for nodes; the first is the one the user's machine found. */
  readonly addresses: readonly string[];
  /** Of the program. Ray would show it to everybody, so it is kept here. */
  readonly environment: Readonly<Record<string, string>>;
  readonly options: RayOptions;
  /** The cluster's offers at submission, for a node that cannot ask. */
  readonly offers: readonly RayOffer[];
}

export interface RayAttempt extends KeptAttempt {
  readonly request: RayRequest;
  /** How often Ray lost it before. */
  readonly restart: number;
  /** Ray's session that took it; `unknown` between the decision and Ray's answer. */
  readonly session: Known<string>;
}

export interface RayEnd extends KeptEnd {
  /** In Ray's word where only Ray tells, such as STOPPED; else empty. */
  readonly rayState: string;
}

const forms: KeptForms<RayOrder, RayAttempt, RayEnd> = {
  isOrder: (order): order is JsonObject & RayOrder =>
    isKeptOrder(order) &&
    isTexts(order['addresses']) &&
    Array.isArray(order['offers']) &&
    isTexts(Object.values(objectIn(order['environment']))) &&
    'metadata' in objectIn(order['options']),
  isAttempt: (attempt): attempt is JsonObject & RayAttempt =>
    Number.isSafeInteger(attempt['number']) &&
    Number.isSafeInteger(attempt['restart']) &&
    typeof attempt['session'] === 'string' &&
    'numGpus' in objectIn(attempt['request']),
  isEnd: (end): end is JsonObject & RayEnd => isKeptEnd(end) && typeof end['rayState'] === 'string',
};

/** The files of one job of Ray. */
export class RayJobFolder extends JobFolder<RayOrder, RayAttempt, RayEnd> {
  constructor(path: string) {
    super(path, forms);
  }

  /** Ray takes each name once: an attempt that is sent twice runs once. */
  idOf({ number, restart }: Pick<RayAttempt, 'number' | 'restart'>): string {
    const again = restart === 0 ? '' : `.${restart}`;
    return `${this.id}${number === 1 ? '' : `-${number}`}${again}`;
  }

  /** As the person names the job: short enough for a table, with the time of day. */
  get id(): string {
    return `plimsoll-${this.key.slice(9, 15)}-${this.key.slice(-8)}`;
  }
}

export function newRayFolder(home: string, atMs: number): RayJobFolder {
  return new RayJobFolder(newJobPath(join(home, 'ray'), atMs));
}

/** The newest first. */
export function rayFolders(home: string): readonly RayJobFolder[] {
  return jobPaths(join(home, 'ray')).map((path) => new RayJobFolder(path));
}

/** The user's own options, in the words of `ray job submit`. */
interface RayOptions {
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
