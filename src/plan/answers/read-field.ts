import { Failure } from '../../failure.js';
import type { RequestField, RequestWording } from './wording.js';

/** More than any dimension of a tensor that fits a GPU. */
const largestCount = 2 ** 24;
/** 16 PiB: no machine has as much; what is larger is a slip, and arithmetic stays exact below. */
const largestBytes = 2 ** 54 / 2;
/** Longer than any path a system takes. */
const longestText = 4096;
/** A workload has a handful of arguments. */
const maxArguments = 256;

// Each of these reads one field of a request that came from outside, and names it in its error.

export type FieldReader<T> = (value: unknown, field: RequestField, wording: RequestWording) => T;

/** One of some words, or numbers, as they are written. */
export function oneOf<T extends string | number>(values: readonly T[]): FieldReader<T> {
  return (value, field, wording) => {
    const found = values.find((one) => one === value);
    if (found === undefined) throw wrong(value, field, wording, `It takes ${values.join(', ')}.`);
    return found;
  };
}

export const readCount: FieldReader<number> = (value, field, wording) => {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= largestCount) {
    return value;
  }
  throw wrong(value, field, wording, `It takes a whole number from 1 to ${largestCount}.`);
};

export const readShare: FieldReader<number> = (value, field, wording) => {
  if (typeof value === 'number' && value > 0 && value <= 1) return value;
  throw wrong(value, field, wording, 'It takes a share above 0 and up to 1, such as 0.9.');
};

export const readByteCount: FieldReader<number> = (value, field, wording) => {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= largestBytes) {
    return value;
  }
  throw wrong(value, field, wording, 'It takes a whole number of bytes, such as 25769803776.');
};

/** More parameters than any model has. */
const maxParameters = 1e14;

export const readParameters: FieldReader<number> = (value, field, wording) => {
  if (typeof value === 'number' && Number.isInteger(value)) {
    if (value >= 1 && value <= maxParameters) return value;
  }
  throw wrong(value, field, wording, 'It takes a number of parameters, such as 22000000000.');
};

export const readFlag: FieldReader<boolean> = (value, field, wording) => {
  if (typeof value === 'boolean') return value;
  throw wrong(value, field, wording, 'It takes true or false.');
};

export const readText: FieldReader<string> = (value, field, wording) => {
  // A path with a NUL in it is none to any system.
  if (typeof value === 'string' && value !== '' && value.length <= longestText) {
    if (!value.includes('\0')) return value;
  }
  throw wrong(value, field, wording, `It takes a text of 1 to ${longestText} letters.`);
};

/** The arguments of a script's `workload`, as `name=value`. */
export const readArguments: FieldReader<readonly string[]> = (value, field, wording) => {
  const next = 'It takes names with texts, such as {"layers": "12"}.';
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw wrong(value, field, wording, next);
  }
  const entries: readonly (readonly [string, unknown])[] = Object.entries(value);
  if (entries.length > maxArguments) throw wrong(value, field, wording, next);
  return entries.map(([name, text]) => {
    const isText = typeof text === 'string' && text.length <= longestText && !text.includes('\0');
    if (!isText || !/^[A-Za-z_]\w*$/.test(name)) throw wrong(value, field, wording, next);
    return `${name}=${text}`;
  });
};

function wrong(
  value: unknown,
  field: RequestField,
  wording: RequestWording,
  next: string,
): Failure {
  const shown = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
  return new Failure({
    kind: 'input',
    code: 'bad-field',
    fact: `${wording.name(field)} cannot be "${shown.slice(0, 100)}".`,
    next,
    field,
  });
}
