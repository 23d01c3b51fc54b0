// From one row a case to the figures that are held against the targets.
import { median } from '../statistics.mjs';

// What people go by without a trace, beside which ours is shown.

/** `accelerate estimate-memory`: the weights, and four times that to train with Adam. */
function accelerateRule({ mode, param_bytes: weights }) {
  return mode === 'train' ? 4 * weights : weights;
}

/** Mixed precision with Adam: 18 bytes a parameter. It says nothing about inference. */
function eighteenBytesRule({ mode, params }) {
  return mode === 'train' ? 18 * params : undefined;
}

/** How far off a figure is, as a share of what was measured; below zero: too low. */
function errorOf(estimated, measured) {
  return (estimated - measured) / measured;
}

/** One row: what was measured, what we say, and what the rules of thumb say. */
export function rowOf({ id, family, measured }, { peak, interval }) {
  const { peak_reserved: reserved, peak_allocated: allocated, process_used: used } = measured;
  return {
    id,
    family,
    reservedBytes: reserved,
    allocatedBytes: allocated,
    estimate: peak,
    interval,
    reserved: errorOf(peak.reservedBytes, reserved),
    allocated: errorOf(peak.allocatedBytes, allocated),
    // Some runs share the machine with others, and then know only their own allocator.
    device: Number.isInteger(used) ? errorOf(peak.deviceBytes, used) : undefined,
    inside: interval.lowBytes <= reserved && reserved <= interval.highBytes,
    width: (interval.highBytes - interval.lowBytes) / reserved,
    accelerate: errorOf(accelerateRule(measured), reserved),
    eighteenBytes:
      eighteenBytesRule(measured) === undefined
        ? undefined
        : errorOf(eighteenBytesRule(measured), reserved),
  };
}

/** Median, 95th percentile and worst of the distances, whichever way they go. */
function spread(errors) {
  const known = errors.filter((error) => error !== undefined);
  if (known.length === 0) return { cases: 0 };
  const distances = known.map(Math.abs).toSorted((a, b) => a - b);
  return {
    cases: known.length,
    median: median(distances),
    // By rank, so that it is a case that was really measured.
    p95: distances[Math.ceil(0.95 * distances.length) - 1],
    worst: distances.at(-1),
    tooLow: known.filter((error) => error < 0).length / known.length,
  };
}

export function summary(rows, failures) {
  const of = (name) => spread(rows.map((row) => row[name]));
  const families = [...new Set(rows.map(({ family }) => family))].toSorted(byName);
  return {
    cases: rows.length + failures.length,
    reserved: of('reserved'),
    allocated: of('allocated'),
    device: of('device'),
    accelerate: of('accelerate'),
    eighteenBytes: of('eighteenBytes'),
    insideShare: rows.filter(({ inside }) => inside).length / Math.max(1, rows.length),
    intervalWidth: rows.length === 0 ? undefined : median(rows.map(({ width }) => width)),
    families: families.map((family) => {
      const own = rows.filter((row) => row.family === family);
      return {
        family,
        reserved: spread(own.map((row) => row.reserved)),
        allocated: spread(own.map((row) => row.allocated)),
        inside: own.filter(({ inside }) => inside).length,
      };
    }),
    worst: rows.toSorted((a, b) => Math.abs(b.reserved) - Math.abs(a.reserved)).slice(0, 10),
    failures,
  };
}

function byName(a, b) {
  return a < b ? -1 : Number(a > b);
}

export const targets = {
  reservedMedian: 0.005,
  reservedP95: 0.03,
  allocatedMedian: 0.001,
  insideShare: 0.95,
  failures: 0,
};

/** The targets that were missed, in words; none means that all were met. */
export function missed({ reserved, allocated, insideShare, failures }) {
  const checks = [
    ['median error of reserved', reserved.median, targets.reservedMedian],
    ['95th percentile of reserved', reserved.p95, targets.reservedP95],
    ['median error of allocated', allocated.median, targets.allocatedMedian],
    ['share outside of the interval', 1 - insideShare, 1 - targets.insideShare],
  ];
  const lines = checks
    .filter(([, value, most]) => !(value <= most + 1e-12))
    .map(([name, value, most]) => `${name}: ${percent(value)}, wanted at most ${percent(most)}`);
  if (failures.length > targets.failures) lines.push(`${failures.length} cases failed`);
  return lines;
}

export function percent(share, digits = 2) {
  return share === undefined ? '-' : `${(100 * share).toFixed(digits)} %`;
}
