import type { AllocatorReading, DeviceInfo, ProcessReading } from '../device/types.js';
import { GiB } from '../units/bytes.js';
import type { Known } from '../units/known.js';
import type {
  Alert,
  DeviceState,
  Forecast,
  History,
  Leak,
  Sample,
  Series,
} from '../watch/types.js';

/** What a hand-made state holds; everything left out is ordinary. */
export interface StateRecipe {
  readonly info?: Partial<DeviceInfo>;
  readonly present?: boolean;
  readonly totalBytes?: Known<number>;
  readonly seconds?: readonly number[];
  readonly used?: readonly number[];
  readonly allocated?: readonly number[];
  readonly reserved?: readonly number[];
  readonly compute?: readonly number[];
  readonly allocatorLimit?: number;
  readonly processes?: Known<readonly ProcessReading[]>;
  readonly forecast?: Partial<Forecast>;
  readonly leak?: Partial<Leak>;
  readonly processLeaks?: ReadonlyMap<number, Leak>;
  readonly cause?: DeviceState['cause'];
  readonly alerts?: readonly Alert[];
}

export const startEpochMs = Date.UTC(2026, 0, 15, 10, 30);

export function fakeForecast(parts: Partial<Forecast> = {}): Forecast {
  return {
    risk: 'none',
    probability: { within15s: 0, within60s: 0, within5min: 0.01 },
    etaSeconds: 'never',
    lowSeconds: 'never',
    highSeconds: 'never',
    confidence: 0.8,
    bytesPerSecond: 0,
    reason: 'Memory has been steady.',
    recommendations: [],
    provenance: 'estimated',
    ...parts,
  };
}

export function fakeLeak(parts: Partial<Leak> = {}): Leak {
  return {
    found: false,
    bytesPerSecond: 0,
    confidence: 0.9,
    grownBytes: 0,
    sinceSeconds: 'unknown',
    watchSeconds: 0,
    reason: 'Memory comes back.',
    ...parts,
  };
}

export function fakeAlert(parts: Partial<Alert> = {}): Alert {
  return {
    kind: 'memory-warning',
    state: 'raised',
    severity: 'warning',
    deviceId: 'gpu:0',
    atSeconds: 5,
    epochMs: startEpochMs + 5000,
    message: 'gpu:0 is 76 % full.',
    recommendations: ['Lower the batch size.'],
    provenance: 'measured',
    ...parts,
  };
}

export function fakeState(recipe: StateRecipe = {}): DeviceState {
  const total = recipe.totalBytes ?? 80 * GiB;
  const used = recipe.used ?? [10 * GiB, 20 * GiB, 30 * GiB];
  const seconds = recipe.seconds ?? used.map((_, index) => index);
  const info: DeviceInfo = {
    id: 'gpu:0',
    kind: 'gpu',
    name: 'NVIDIA A100',
    source: 'nvml',
    provenance: 'measured',
    uuid: 'GPU-1',
    driver: '550.54',
    ...recipe.info,
  };
  const last = used.at(-1) ?? 'unknown';
  const allocator: AllocatorReading | undefined =
    recipe.allocatorLimit === undefined
      ? undefined
      : {
          allocatedBytes: recipe.allocated?.at(-1) ?? 0,
          reservedBytes: recipe.reserved?.at(-1) ?? 0,
          limitBytes: recipe.allocatorLimit,
        };
  const latest: Sample = {
    device: info,
    atSeconds: seconds.at(-1) ?? 0,
    epochMs: startEpochMs + (seconds.at(-1) ?? 0) * 1000,
    totalBytes: total,
    usedBytes: last,
    freeBytes: last === 'unknown' || total === 'unknown' ? 'unknown' : Math.max(0, total - last),
    utilizationPercent: recipe.compute?.at(-1) ?? 'unknown',
    ...(allocator && { allocator }),
  };
  return {
    info,
    present: recipe.present ?? true,
    latest,
    processes: recipe.processes ?? [],
    history: fakeHistory(seconds, used, recipe, total),
    forecast: fakeForecast(recipe.forecast),
    leak: fakeLeak(recipe.leak),
    processLeaks: recipe.processLeaks ?? new Map(),
    cause: recipe.cause ?? 'none',
    alerts: recipe.alerts ?? [],
  };
}

/** Holds what it was given; buckets of equal count when fewer points are asked for. */
function fakeHistory(
  seconds: readonly number[],
  used: readonly number[],
  recipe: StateRecipe,
  total: Known<number>,
): History {
  const columns = {
    used,
    allocated: recipe.allocated,
    reserved: recipe.reserved,
    utilization: recipe.compute,
  };
  const known = used.length > 0;
  const max = Math.max(...used);
  const mean = used.reduce((sum, value) => sum + value, 0) / used.length;
  const percent = (bytes: number): Known<number> =>
    known && total !== 'unknown' ? (bytes / total) * 100 : 'unknown';
  return {
    add: () => undefined,
    statistics: () => ({
      samples: used.length,
      minUsedBytes: known ? Math.min(...used) : 'unknown',
      meanUsedBytes: known ? Math.round(mean) : 'unknown',
      maxUsedBytes: known ? max : 'unknown',
      maxAtSeconds: known ? (seconds[used.indexOf(max)] ?? 'unknown') : 'unknown',
      meanUsedPercent: percent(mean),
      maxUsedPercent: percent(max),
    }),
    trend: () => ((used.at(-1) ?? 0) > (used[0] ?? 0) ? 'increasing' : 'stable'),
    series: (column, range) => bucketed(seconds, columns[column], range),
    footprintBytes: 0,
  };
}

function bucketed(
  seconds: readonly number[],
  values: readonly number[] | undefined,
  range: { fromSeconds?: number; toSeconds?: number; maxPoints?: number } = {},
): Series {
  const inside = seconds
    .map((second, index) => ({ second, value: values?.[index] ?? Number.NaN }))
    .filter(
      ({ second }) =>
        second >= (range.fromSeconds ?? -Infinity) && second <= (range.toSeconds ?? Infinity),
    );
  const stride = Math.max(1, Math.ceil(inside.length / (range.maxPoints ?? 2000)));
  const buckets = Array.from({ length: Math.ceil(inside.length / stride) }, (_, index) =>
    inside.slice(index * stride, (index + 1) * stride),
  );
  const column = (pick: (numbers: number[]) => number): Float64Array =>
    Float64Array.from(buckets, (bucket) => pick(bucket.map(({ value }) => value)));
  return {
    seconds: Float64Array.from(buckets, (bucket) => bucket[0]?.second ?? 0),
    min: column((numbers) => Math.min(...numbers)),
    mean: column((numbers) => numbers.reduce((sum, value) => sum + value, 0) / numbers.length),
    max: column((numbers) => Math.max(...numbers)),
  };
}
