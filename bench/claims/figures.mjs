// Figures that README and docs state, computed from kept rows. `claims.json` holds each: the rows it comes from, how it
// is computed, and the sentences that state it, with {names} in place of figures.
//
// A path leads to a value in the rows: a key, a place in a list, `{"is": {..}}` the one entry with these values,
// `{"where": {..}}` all of them, `{"with": {..}}` those that contain these words, "[]" the list of what follows. "row" is the entry of `each`. A table of columns and
// lists reads as a list of objects. A figure with `"name": true` says which row a sentence is about.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { median } from '../statistics.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const figurePattern = /[+-]?\d[\d,]*(?:\.\d+)?/g;

export const claims = JSON.parse(readFileSync(new URL('claims.json', import.meta.url), 'utf8'));

const takes = {
  count: (values) => values.length,
  sum: (values) => values.reduce((total, value) => total + value, 0),
  mean: (values) => takes.sum(values) / values.length,
  least: (values) => Math.min(...values),
  most: (values) => Math.max(...values),
  median,
  farthest: (values) => Math.max(...values.map(Math.abs)),
  'median error': (values) => median(values.map(Math.abs)),
  '95th percentile': (values) => reachedBy(values.map(Math.abs), 0.95),
  '90th percentile': (values) => reachedBy(values.map(Math.abs), 0.9),
};

/** The value that this share of them does not pass. */
function reachedBy(values, part) {
  const sorted = values.toSorted((one, other) => one - other);
  return sorted[Math.ceil(part * sorted.length) - 1];
}

/** The rows that a claim names: `FILE`, or `FILE#SET` for one set of a file that has several. */
export function rowsNamed(name) {
  const [file, set] = name.split('#');
  const kept = JSON.parse(readFileSync(`${root}bench/results/rows/${file}`, 'utf8'));
  return set === undefined ? kept : kept[set];
}

function asObjects(value) {
  if (!Array.isArray(value?.columns)) return value;
  return value.rows.map((cells) =>
    Object.fromEntries(value.columns.map((column, at) => [column, cells[at]])),
  );
}

function resolve(from, path) {
  const [step, ...rest] = path;
  const value = asObjects(from);
  if (step === undefined) return value;
  if (step === '[]') return value.map((one) => resolve(one, rest));
  if (typeof step !== 'object') return resolve(value[step], rest);
  const wanted = Object.entries(step.is ?? step.where ?? step.with);
  const found = value.filter((one) =>
    wanted.every(([key, is]) => (step.with ? one[key].includes(is) : one[key] === is)),
  );
  if (!step.is) return resolve(found, rest);
  if (found.length !== 1) throw new Error(`${found.length} entries are ${JSON.stringify(step.is)}`);
  return resolve(found[0], rest);
}

function valueOf(rows, { of, take, over, minus = 0, sum }) {
  const taken = (path) => {
    const value = resolve(rows, path);
    return take ? takes[take](value.filter((one) => one !== null)) : value;
  };
  if (sum !== undefined) return takes.sum(sum.map(taken));
  if (over !== undefined) return taken(of) / taken(over) - minus;
  return taken(of);
}

/** As it is written: `{"digits": 1, "times": 100}` is a share in per cent; `"plain": true` leaves out commas. */
function written(rows, figure) {
  const value = valueOf(rows, figure);
  if (typeof value === 'string') return value;
  const { digits = 0, times = 1, plain = false } = figure;
  if (!Number.isFinite(value)) throw new Error(`${JSON.stringify(figure)} is ${value}`);
  return (value * times).toLocaleString('en-US', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
    useGrouping: !plain,
  });
}

/** Each sentence of a claim: as it should be, and the pattern that finds it with any figures. */
export function sentences(claim) {
  try {
    return sentencesOf(claim);
  } catch (error) {
    throw new Error(`${claim.id}: ${error.message}`, { cause: error });
  }
}

function sentencesOf({ rows: name, figures = {}, stated }) {
  const rows = rowsNamed(name);
  return stated.flatMap(({ in: file, text, each, figures: own = {} }) => {
    const places = each === undefined ? [rows] : resolve(rows, each).map((row) => ({ row, rows }));
    return places.map((place) => {
      const all = { ...figures, ...own };
      const shown = Object.fromEntries(
        [...text.matchAll(/\{(\w+)\}/g)].map(([, key]) => [key, written(place, all[key])]),
      );
      const parts = text.split(/\{(\w+)\}/).map((part, at) => {
        if (at % 2 === 0) return { text: part, pattern: escaped(part), isFigure: false };
        // A name says which row it is; only the figures beside it may be others.
        const isFigure = all[part].name !== true;
        const [first, ...others] = shown[part].split(figurePattern);
        const free = [first, ...others].map(escaped).join(figurePattern.source);
        return { text: shown[part], pattern: isFigure ? free : escaped(shown[part]), isFigure };
      });
      return {
        file,
        parts,
        text: parts.map((part) => part.text).join(''),
        pattern: new RegExp(parts.map(({ pattern }) => pattern).join(''), 'g'),
      };
    });
  });
}

function escaped(text) {
  return text.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
}

const page = (file) => readFileSync(`${root}${file}`, 'utf8');

/** What pages say otherwise than the rows, one line each. */
export function differences(all = claims, read = page) {
  return all.flatMap((claim) =>
    sentences(claim).flatMap(({ file, text, pattern }) => {
      const found = [...read(file).matchAll(pattern)].map(([one]) => one);
      if (found.length === 0) return [`${claim.id}: ${file} does not say "${text}"`];
      return found
        .filter((one) => one !== text)
        .map((one) => `${claim.id}: ${file} says "${one}", the rows say "${text}"`);
    }),
  );
}

/** The page with the figures of the rows. */
export function rewritten(file, text, all = claims) {
  return all
    .flatMap(sentences)
    .filter((one) => one.file === file)
    .reduce((before, { text: right, pattern }) => before.replace(pattern, () => right), text);
}
