import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parseRecordedTrace } from '../../device/recorded-trace.js';
import { isKnown } from '../../units/known.js';
import type { Forecast, MemoryPoint } from '../types.js';
import { createForecaster } from './forecast.js';

/** The same file is read by python/tests/sdk/test_forecast.py: both must answer alike. */
const path = new URL('../../../test/fixtures/forecast-rules.json', import.meta.url);
const rules: Rules = JSON.parse(readFileSync(path, 'utf8'));

/** `[seconds, MiB]`: straight between two of them, a jump where the seconds are the same. */
type Corner = [number, number];
/** `[seconds, risk, etaSeconds, lowSeconds, highSeconds, confidence, bytesPerSecond]` */
type Told = [number, ...(number | string)[]];

interface Rules {
  about: string;
  series: {
    name: string;
    limitMib: number;
    intervalSeconds: number;
    held: Corner[];
    live?: Corner[];
    told: Told[];
  }[];
  recorded: { file: string; told: Told[] }[];
}

const MiB = 1024 ** 2;

function valueAt(corners: readonly Corner[], seconds: number): number {
  const next = corners.findIndex(([at]) => at > seconds);
  const [before, low] = corners[next === -1 ? corners.length - 1 : next - 1] ?? [0, 0];
  const [after, high] = corners[next] ?? [before, low];
  const share = after > before ? (seconds - before) / (after - before) : 0;
  return Math.floor((low + (high - low) * share) * MiB + 0.5);
}

function pointsOf({ limitMib, intervalSeconds, held, live }: Rules['series'][number]) {
  const points: MemoryPoint[] = [];
  const end = held.at(-1)?.[0] ?? 0;
  for (let i = 0; i * intervalSeconds < end; i++) {
    const seconds = i * intervalSeconds;
    points.push({
      seconds,
      limitBytes: limitMib * MiB,
      heldBytes: valueAt(held, seconds),
      ...(live && { liveBytes: valueAt(live, seconds) }),
    });
  }
  return points;
}

function recordedPoints(file: string): MemoryPoint[] {
  const text = readFileSync(new URL(`../../../bench/truth/${file}`, import.meta.url), 'utf8');
  const trace = parseRecordedTrace(text, file);
  return trace.rows.flatMap(({ seconds, reservedBytes, allocatedBytes }) =>
    isKnown(reservedBytes) && isKnown(allocatedBytes)
      ? [
          {
            seconds,
            limitBytes: trace.capacityBytes,
            heldBytes: reservedBytes,
            liveBytes: allocatedBytes,
          },
        ]
      : [],
  );
}

/** The forecast each time its risk changes, and at the end. */
function toldAbout(points: readonly MemoryPoint[]): Told[] {
  const forecaster = createForecaster();
  const told: Told[] = [];
  let risk: Forecast['risk'] | undefined;
  for (const [index, point] of points.entries()) {
    forecaster.add(point);
    const now = forecaster.forecast();
    if (now.risk === risk && index < points.length - 1) continue;
    risk = now.risk;
    const { etaSeconds, lowSeconds, highSeconds, confidence, bytesPerSecond } = now;
    told.push([
      point.seconds,
      risk,
      etaSeconds,
      lowSeconds,
      highSeconds,
      confidence,
      bytesPerSecond,
    ]);
  }
  return told;
}

/** Logarithms may differ in their last digit from one machine to another. */
function near(told: readonly Told[]): unknown[] {
  return told.map((one) =>
    one.map((value) =>
      typeof value === 'number' ? (expect.closeTo(value, value > 1000 ? -1 : 2) as unknown) : value,
    ),
  );
}

if (process.env['UPDATE_FORECAST_RULES']) {
  for (const one of rules.series) one.told = toldAbout(pointsOf(one));
  for (const one of rules.recorded) one.told = toldAbout(recordedPoints(one.file));
  writeFileSync(path, `${JSON.stringify(rules, undefined, 2)}\n`);
}

describe('the forecast, as the SDK makes it too', () => {
  it.each(rules.series)('$name', (one) => {
    expect(toldAbout(pointsOf(one))).toEqual(near(one.told));
  });

  it.each(rules.recorded)('$file', ({ file, told }) => {
    expect(toldAbout(recordedPoints(file))).toEqual(near(told));
  });

  it('sees each risk in these cases', () => {
    const told = [...rules.series, ...rules.recorded].flatMap((one) => one.told);
    expect(new Set(told.map(([, risk]) => risk))).toEqual(
      new Set(['unknown', 'none', 'low', 'medium', 'high', 'critical']),
    );
  });
});
