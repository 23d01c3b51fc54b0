import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parseRecordedTrace } from '../../device/recorded-trace.js';
import { isKnown } from '../../units/known.js';
import type { Forecast, MemoryPoint } from '../types.js';
import { createForecaster } from './forecast.js';

/** The same file is read by python/tests/sdk/test_common_rules.py: both must answer alike. */
const path = new URL('../../../test/fixtures/forecast-rules.json', import.meta.url);
const rules: Rules = JSON.parse(readFileSync(path, 'utf8'));

/** `[seconds, MiB]`: straight between two of them, a jump where the seconds are the same. */
type Corner = [number, number];
/** `[seconds, risk, etaSeconds, lowSeconds, highSeconds, confidence, bytesPerSecond]` */
type Change = [number, ...(number | string)[]];

interface Rules {
  about: string;
  series: {
    name: string;
    limitMib: number;
    intervalSeconds: number;
    held: Corner[];
    live?: Corner[];
    changes: Change[];
  }[];
  recorded: { file: string; changes: Change[] }[];
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
function changesIn(points: readonly MemoryPoint[]): Change[] {
  const forecaster = createForecaster();
  const changes: Change[] = [];
  let risk: Forecast['risk'] | undefined;
  for (const [index, point] of points.entries()) {
    forecaster.add(point);
    const now = forecaster.forecast();
    if (now.risk === risk && index < points.length - 1) continue;
    risk = now.risk;
    const { etaSeconds, lowSeconds, highSeconds, confidence, bytesPerSecond } = now;
    changes.push([
      point.seconds,
      risk,
      etaSeconds,
      lowSeconds,
      highSeconds,
      confidence,
      bytesPerSecond,
    ]);
  }
  return changes;
}

/** Logarithms may differ in their last digit from one machine to another. */
function near(changes: readonly Change[]): unknown[] {
  return changes.map((one) =>
    one.map((value) =>
      typeof value === 'number' ? (expect.closeTo(value, value > 1000 ? -1 : 2) as unknown) : value,
    ),
  );
}

if (process.env['UPDATE_FORECAST_RULES']) {
  for (const one of rules.series) one.changes = changesIn(pointsOf(one));
  for (const one of rules.recorded) one.changes = changesIn(recordedPoints(one.file));
  writeFileSync(path, `${JSON.stringify(rules, undefined, 2)}\n`);
}

describe('the forecast, as the SDK makes it too', () => {
  it.each(rules.series)('$name', (one) => {
    expect(changesIn(pointsOf(one))).toEqual(near(one.changes));
  });

  it.each(rules.recorded)('$file', ({ file, changes }) => {
    expect(changesIn(recordedPoints(file))).toEqual(near(changes));
  });

  it('sees each risk in these cases', () => {
    const changes = [...rules.series, ...rules.recorded].flatMap((one) => one.changes);
    expect(new Set(changes.map(([, risk]) => risk))).toEqual(
      new Set(['unknown', 'none', 'low', 'medium', 'high', 'critical']),
    );
  });
});
