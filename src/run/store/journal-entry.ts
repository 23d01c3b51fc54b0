import { checkSchema, parseObject } from '../../files/own-file.js';
import type { Known } from '../../units/known.js';
import type { LimitAnswer } from '../bridge/spilling.js';
import type { NextAttempt } from '../ladder/climb.js';
import type { LimitCgroup } from '../limit/cgroup.js';
import {
  type Attempt,
  type ClimbedRung,
  type EnforcedLimit,
  type Outcome,
  outcomes,
  type RunSettings,
} from '../types.js';
import { isSettings, isText, isTexts } from './run-plan.js';

/** An attempt begins. */
export interface StartedEntry {
  readonly type: 'started';
  readonly at: string;
  readonly number: number;
  readonly settings: RunSettings;
  readonly command: readonly string[];
  readonly limit: EnforcedLimit;
  readonly cgroup: LimitCgroup | null;
  /** The kernel's count of kills when it began. */
  readonly killsBefore: Known<number>;
}

/** Another limit was asked for while an attempt went on; `bytes` is the one that is in force since. */
export interface LimitedEntry extends LimitAnswer {
  readonly type: 'limited';
  readonly at: string;
  readonly number: number;
}

/** What happens to a run, in the order in which it did. A line is there when it has happened. */
export type JournalEntry =
  | StartedEntry
  | { readonly type: 'climbed'; readonly number: number; readonly rung: ClimbedRung }
  | LimitedEntry
  | { readonly type: 'stopped'; readonly at: string; readonly signal: string }
  | { readonly type: 'attached'; readonly at: string; readonly pid: number }
  | { readonly type: 'ended'; readonly attempt: Attempt; readonly next: NextAttempt | null }
  | {
      readonly type: 'finished';
      readonly at: string;
      readonly outcome: Outcome;
      readonly exitCode: Known<number>;
      /** Why it ended, where no attempt tells. */
      readonly why?: string | undefined;
    };

/** Stands in every line: a journal may be read by another version than wrote it. */
const journalSchema = 1;

export function formatEntry(entry: JournalEntry): string {
  return JSON.stringify({ schema: journalSchema, ...entry });
}

type Document = Readonly<Record<string, unknown>>;

/**
 * The entry in a line of a journal; undefined where it holds none: a write that was cut by a crash
 * never happened, and what is not an entry of ours is passed over. One of a newer version is refused.
 */
export function parseEntry(line: string, path: string): JournalEntry | undefined {
  const found = parseObject(line);
  if (found === undefined) return undefined;
  const { schema = 1, ...entry } = found;
  checkSchema({ schema }, journalSchema, path);
  return isEntry(entry) ? entry : undefined;
}

function isEntry(entry: Document): entry is Document & JournalEntry {
  switch (entry['type']) {
    case 'started':
      return (
        isText(entry['at']) &&
        isNumber(entry['number']) &&
        isSettings(entry['settings']) &&
        isTexts(entry['command']) &&
        isObject(entry['limit'])
      );
    case 'climbed':
      return isNumber(entry['number']) && isObject(entry['rung']);
    case 'limited':
      return (
        isNumber(entry['number']) &&
        isNumber(entry['order']) &&
        (isNumber(entry['bytes']) || entry['bytes'] === 'none') &&
        isText(entry['why'])
      );
    case 'stopped':
      return isText(entry['signal']);
    case 'attached':
      return true;
    case 'ended':
      return isAttempt(entry['attempt']) && (entry['next'] === null || isObject(entry['next']));
    case 'finished':
      return isText(entry['at']) && outcomes.some((outcome) => outcome === entry['outcome']);
    default:
      return false;
  }
}

export function isAttempt(value: unknown): value is Attempt {
  const attempt: Document = { ...Object(value) };
  return (
    isNumber(attempt['number']) &&
    isSettings(attempt['settings']) &&
    isText(attempt['startedAt']) &&
    isText(attempt['endedAt']) &&
    isObject(attempt['limit']) &&
    Array.isArray(attempt['rungs'])
  );
}

function isNumber(value: unknown): value is number {
  return typeof value === 'number';
}

function isObject(value: unknown): value is Document {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
