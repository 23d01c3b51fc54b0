import { Failure } from '../failure.js';

/** Limits of an answer from Prometheus; a larger answer is refused, not read in part. */
export const prometheusLimits = {
  /** 80,000 devices take some 13 MB in one answer; five times as much is not a fleet. */
  answerBytes: 64 * 1024 * 1024,
  /** Jobs and ranks on 10,000 nodes of 8 GPUs, with room for several on each GPU. */
  series: 400_000,
  /** Prometheus itself answers at most so many points of a series. */
  points: 11_000,
  /** Ours have at most five; relabelling may add some. */
  labels: 64,
  /** A job's name may be a long command line. */
  labelCharacters: 4096,
  /** Of one query. Prometheus itself gives up after 120 s unless told otherwise. */
  seconds: 30,
  /** Queries that are under way at the same time; Prometheus runs 20 unless told otherwise. */
  atOnce: 4,
} as const;

/** One series at one moment. */
export interface Point {
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** One series over time. */
export interface Line {
  readonly labels: Readonly<Record<string, string>>;
  /** Seconds since 1970, and values. */
  readonly points: readonly (readonly [seconds: number, value: number])[];
}

/**
 * The points of an answer to `/api/v1/query`. Values that are no finite number are left out: they
 * are unknown. Anything else that is not as Prometheus documents it is refused.
 *
 * @example
 * readPoints('{"status":"success","data":{"resultType":"vector","result":[]}}'); // []
 */
export function readPoints(text: string): readonly Point[] {
  return resultOf(text, 'vector').flatMap((entry) => {
    const { metric, value } = objectOf(entry);
    const [, number] = sampleOf(value);
    return Number.isFinite(number) ? [{ labels: labelsOf(metric), value: number }] : [];
  });
}

/** The lines of an answer to `/api/v1/query_range`. */
export function readLines(text: string): readonly Line[] {
  return resultOf(text, 'matrix').map((entry) => {
    const { metric, values } = objectOf(entry);
    if (!Array.isArray(values) || values.length > prometheusLimits.points)
      throw notPrometheus('points');
    const points = values.map(sampleOf).filter(([, value]) => Number.isFinite(value));
    return { labels: labelsOf(metric), points };
  });
}

/** Returns Prometheus's reason for refusing a query; undefined if it is not its error document. */
export function readError(text: string): string | undefined {
  const { status, error, errorType } = Object(parsed(text));
  if (status !== 'error' || typeof error !== 'string') return undefined;
  const kind = typeof errorType === 'string' ? `${errorType}: ` : '';
  return `${kind}${error}`.slice(0, 500);
}

function resultOf(text: string, wanted: 'vector' | 'matrix'): readonly unknown[] {
  const { status, data } = objectOf(parsed(text));
  const { resultType, result } = objectOf(data);
  if (status !== 'success' || resultType !== wanted || !Array.isArray(result)) {
    throw notPrometheus('result');
  }
  if (result.length > prometheusLimits.series) throw tooMuch(`${result.length} series`);
  return result;
}

function sampleOf(entry: unknown): readonly [number, number] {
  if (!Array.isArray(entry) || entry.length !== 2) throw notPrometheus('sample');
  const [seconds, text] = entry;
  if (typeof seconds !== 'number' || typeof text !== 'string') throw notPrometheus('sample');
  // Number('') is 0.
  return [seconds, text === '' ? Number.NaN : Number(text)];
}

function labelsOf(metric: unknown): Readonly<Record<string, string>> {
  const entries = Object.entries(objectOf(metric));
  if (entries.length > prometheusLimits.labels)
    throw tooMuch(`${entries.length} labels on one series`);
  // Without a prototype: a label may be called `constructor`.
  const labels: Record<string, string> = Object.create(null);
  for (const [name, value] of entries) {
    if (typeof value !== 'string') throw notPrometheus('label');
    labels[name] = value.slice(0, prometheusLimits.labelCharacters);
  }
  return labels;
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw notPrometheus('object');
  }
  return { ...value };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

export function notPrometheus(missing: string): Failure {
  return new Failure({
    kind: 'missing',
    code: 'no-prometheus',
    fact: `The answer is not one of Prometheus: its ${missing} cannot be read.`,
    next: 'Give the address of Prometheus itself, such as http://prometheus:9090, with the path where it has one.',
  });
}

export function tooMuch(found: string): Failure {
  return new Failure({
    kind: 'missing',
    code: 'fleet-too-large',
    fact: `Prometheus answered more than can be shown: ${found}.`,
    next: 'Ask a Prometheus that scrapes fewer nodes.',
  });
}
