import { join } from 'node:path';
import type { Known } from '../../units/known.js';
import {
  isKeptEnd,
  isKeptOrder,
  isTexts,
  JobFolder,
  jobPaths,
  type KeptAttempt,
  type KeptEnd,
  type KeptForms,
  type KeptOrder,
  newJobPath,
} from '../job-folder.js';
import { type JsonObject, objectIn } from '../json-values.js';
import type { RayOffer } from './offers.js';
import type { RayOptions } from './options.js';
import type { RayRequest } from './request.js';

export interface RayOrder extends KeptOrder {
  /** Where nodes may find the dashboard; the first is where the person found it. */
  readonly addresses: readonly string[];
  /** Of the program. Ray would show it to everybody, so it is kept here. */
  readonly environment: Readonly<Record<string, string>>;
  readonly options: RayOptions;
  /** What the cluster had when it was submitted, for a node that cannot ask. */
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
