import { stripVTControlCharacters } from 'node:util';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  fakeAlert,
  fakeLeak,
  fakeState,
  type StateRecipe,
  startEpochMs,
} from '../../report/state-for-tests.js';
import { textWidth } from '../../report/text/text-width.js';
import { GiB } from '../../units/bytes.js';
import { risks } from '../../watch/types.js';
import { overTime } from './device-area.js';
import { renderScreen, type ScreenModel } from './screen.js';
import { newView } from './view.js';

const plain = { colour: false, unicode: true };

function model(parts: Partial<ScreenModel> = {}): ScreenModel {
  return {
    states: [fakeState()],
    alerts: [],
    events: [],
    rows: [],
    noRows: 'No process holds memory here.',
    view: newView('terminal'),
    nowSeconds: 60,
    epochMs: startEpochMs,
    hostname: 'ship-07',
    intervalSeconds: 0.1,
    loadLinePercent: 90,
    version: '1.2.3',
    ...parts,
  };
}

function screen(parts: Partial<ScreenModel>, columns: number, rows: number): string {
  return renderScreen(model(parts), { columns, rows }, plain).lines.join('\n');
}

const growing: StateRecipe = {
  info: { name: 'NVIDIA H200' },
  used: Array.from({ length: 60 }, (_, index) => index * GiB),
  compute: Array.from({ length: 60 }, () => 87),
  forecast: { risk: 'high', etaSeconds: 45, lowSeconds: 30, highSeconds: 70 },
  leak: { found: true, bytesPerSecond: GiB, grownBytes: 40 * GiB },
  cause: 'leak',
  processes: [
    { pid: 4242, name: 'python train.py', usedBytes: 50 * GiB },
    { pid: 17, name: 'unknown', usedBytes: 'unknown' },
  ],
};

describe('renderScreen', () => {
  it('shows all about one device on a usual terminal', () => {
    const text = screen(
      { states: [fakeState(growing)], alerts: [fakeAlert({ atSeconds: 55 })] },
      80,
      24,
    );
    expect(text).toContain('ship-07');
    expect(text).toContain('60 samples');
    expect(text).toContain('gpu:0  NVIDIA H200');
    expect(text).toContain('nvml, measured');
    expect(text).toContain('73.8 %');
    expect(text).toContain('59.0 of 80.0 GiB');
    expect(text).toContain('87 % compute');
    expect(text).toContain('↗ rising');
    expect(text).toContain('load line 90 % ▲');
    expect(text).toContain('full in 45 s (30 to 70 s), risk high, estimated');
    expect(text).toContain('grows by 1.0 GiB a second');
    expect(text).toMatch(/▲ 5\.0 s ago +gpu:0 is 76 % full/);
    expect(text).toContain('q leave  h help');
  });

  it('points at the load line on the bar', () => {
    const lines = screen({ states: [fakeState(growing)] }, 80, 24).split('\n');
    const bar = lines.find((line) => line.includes('┃')) ?? '';
    const label = lines.find((line) => line.includes('▲')) ?? '';
    expect(label.indexOf('▲')).toBe(bar.indexOf('┃'));
  });

  it('has a line for each of 8 GPUs on 80 x 24, in columns', () => {
    const states = Array.from({ length: 8 }, (_, index) =>
      fakeState({ ...growing, info: { id: `gpu:${index}` }, used: [0, index * 11 * GiB] }),
    );
    const alerts = Array.from({ length: 9 }, () => fakeAlert());
    const lines = screen({ states, alerts }, 80, 24).split('\n');
    const rows = lines.filter((line) => /^gpu:\d /.test(line));
    expect(rows).toHaveLength(8);
    expect(new Set(rows.map((row) => row.indexOf('┃'))).size).toBe(1);
    expect(rows[7]).toContain('77.0/80.0 GiB');
    expect(rows[7]).toContain('96 %');
    expect(rows[7]).toContain('full in 45 s');
  });

  it('shows the most urgent devices when not all fit, and says that there are more', () => {
    const states = Array.from({ length: 16 }, (_, index) =>
      fakeState({
        info: { id: `gpu:${index}` },
        forecast: { risk: index === 13 ? 'critical' : 'none' },
      }),
    );
    const text = screen({ states }, 60, 8);
    expect(text).toContain('gpu:13');
    expect(text).toContain('and 14 more devices');
  });

  it('lists the newest alert first, with devices that came and went', () => {
    const text = screen(
      {
        alerts: [
          fakeAlert({ atSeconds: 10, message: 'older' }),
          fakeAlert({ atSeconds: 50, message: 'newer' }),
        ],
        events: [
          {
            type: 'vanished',
            device: fakeState().info,
            reason: 'fell off the bus',
            atSeconds: 30,
            epochMs: 0,
          },
        ],
      },
      80,
      24,
    );
    const places = ['newer', 'fell off the bus', 'older'].map((word) => text.indexOf(word));
    expect(places).toEqual(places.toSorted((one, other) => one - other));
    expect(places[0]).toBeGreaterThan(0);
  });

  it('shows the fact at the end of an alert at 80 columns', () => {
    const message =
      'python (process 4711) on gpu:0 (NVIDIA H100 80GB HBM3, simulated) leaks 110 MiB a second, 2.3 GiB so far.';
    const lines = screen({ alerts: [fakeAlert({ atSeconds: 50, message })] }, 80, 24).split('\n');
    const joined = lines.map((line) => line.trim()).join(' ');
    expect(joined).toContain('leaks 110 MiB a second, 2.3 GiB so far.');
    expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(80);
  });

  it('marks simulated devices in blocks and in lines', () => {
    const state = fakeState({ info: { source: 'simulated', provenance: 'simulated' } });
    expect(screen({ states: [state] }, 80, 24)).toContain('simulated');
    expect(screen({ states: [state] }, 60, 4)).toContain('simulated');
  });

  it('speaks ASCII where the terminal knows no more', () => {
    const states = [fakeState({ ...growing, info: { name: '模型' } })];
    const { lines } = renderScreen(
      model({ states, alerts: [fakeAlert()] }),
      { columns: 80, rows: 24 },
      {
        colour: false,
        unicode: false,
      },
    );
    expect(lines.join('')).toMatch(/^[\x20-\x7e]*$/);
  });

  it('lets no name move the cursor', () => {
    const evil = 'a\u001B[2J\u001B]0;title\u0007\nb';
    const states = [
      fakeState({
        info: { id: evil, name: evil },
        processes: [{ pid: 1, name: evil, usedBytes: 1 }],
      }),
    ];
    const text = screen({ states, hostname: evil, alerts: [fakeAlert({ message: evil })] }, 80, 24);
    expect(text.replaceAll('\n', '')).not.toMatch(/\p{Cc}/u);
  });

  it('fits any terminal, whatever there is to show', () => {
    const text = fc.string({ unit: 'binary', maxLength: 60 });
    const bytes = fc.oneof(
      fc.constant('unknown' as const),
      fc.nat(2 ** 31).map((n) => n * 64),
    );
    const eta = fc.oneof(
      fc.constantFrom('never' as const, 'unknown' as const),
      fc.double({ min: 0, max: 1e7, noNaN: true }),
    );
    const recipe: fc.Arbitrary<StateRecipe> = fc.record({
      info: fc.record({
        id: text,
        name: text,
        provenance: fc.constantFrom('measured', 'simulated'),
      }),
      present: fc.boolean(),
      totalBytes: bytes,
      used: fc.array(
        fc.nat(2 ** 31).map((n) => n * 64),
        { maxLength: 20 },
      ),
      forecast: fc.record({
        risk: fc.constantFrom('unknown' as const, ...risks),
        etaSeconds: eta,
        lowSeconds: eta,
        highSeconds: eta,
        reason: text,
      }),
      leak: fc.record({
        found: fc.constantFrom<(boolean | 'unknown')[]>(true, false, 'unknown'),
        grownBytes: bytes,
      }),
      cause: fc.constantFrom('leak', 'spike', 'none', 'unknown', 'neighbour'),
      processes: fc.oneof(
        fc.constant('unknown' as const),
        fc.array(fc.record({ pid: fc.nat(), name: text, usedBytes: bytes }), { maxLength: 8 }),
      ),
      processLeaks: fc.nat().map((pid) => new Map([[pid, fakeLeak({ found: true })]])),
    });
    fc.assert(
      fc.property(
        fc.record({
          columns: fc.oneof(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 220 })),
          rows: fc.oneof(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 70 })),
        }),
        fc.array(recipe, { maxLength: 12 }),
        fc.array(fc.record({ message: text, deviceId: text, atSeconds: fc.nat(100) }), {
          maxLength: 10,
        }),
        fc.record({ colour: fc.boolean(), unicode: fc.boolean() }),
        text,
        (size, recipes, alerts, style, hostname) => {
          const { lines } = renderScreen(
            model({ states: recipes.map(fakeState), alerts: alerts.map(fakeAlert), hostname }),
            size,
            style,
          );
          expect(lines.length).toBeLessThanOrEqual(size.rows);
          expect(lines.length).toBeGreaterThan(0);
          for (const line of lines) {
            const bare = stripVTControlCharacters(line);
            expect(bare).not.toMatch(/\p{Cc}/u);
            expect(textWidth(bare)).toBeLessThanOrEqual(size.columns);
            expect(bare).not.toMatch(/NaN|undefined/);
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  it('has nothing to draw on no terminal', () => {
    expect(renderScreen(model(), { columns: 0, rows: 0 }, plain).lines).toEqual([]);
    expect(renderScreen(model(), { columns: Number.NaN, rows: 5 }, plain).lines).toEqual([]);
  });

  it('says that it sees no device', () => {
    expect(screen({ states: [] }, 80, 24)).toContain('No device is seen.');
  });
});

describe('a history over time', () => {
  it('puts each bucket where its time is, and long buckets over all their cells', () => {
    const column = Float64Array.from([5, 9, 2]);
    const series = {
      seconds: Float64Array.from([2, 4, 9]),
      min: column,
      mean: column,
      max: column,
    };
    const cells = overTime(series, { fromSeconds: 0, toSeconds: 10 }, 10);
    expect(cells).toEqual([Number.NaN, Number.NaN, 5, 5, 9, 9, 9, 9, 9, 2]);
  });

  it('takes the last instant of the range into the last cell', () => {
    const column = Float64Array.from([7]);
    const series = { seconds: Float64Array.from([10]), min: column, mean: column, max: column };
    expect(overTime(series, { fromSeconds: 0, toSeconds: 10 }, 2)).toEqual([Number.NaN, 7]);
  });
});
