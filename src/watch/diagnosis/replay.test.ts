import { readdirSync, readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parseRecordedTrace } from '../../device/recorded-trace.js';
import type { Cause } from '../types.js';
import { replayTrace } from './replay.js';

const folder = new URL('../../../bench/truth/traces/', import.meta.url);
/** These run out of memory all at once: it cannot be foreseen. */
const sudden = new Set(['batch-doubling', 'fragmenting']);
const causes: Readonly<Record<string, Cause>> = {
  'batch-doubling': 'growth',
  'epoch-accumulate-leak': 'leak',
  'eval-spikes': 'spike',
  exponential: 'growth',
  fragmenting: 'fragmentation',
  'leak-graph': 'leak',
  'leak-late': 'leak',
  'leak-linear': 'leak',
  'leak-slow-survives': 'leak',
  steady: 'none',
};

function outcomeOf(file: unknown): { scenario: string; ended: string; at: number } {
  if (typeof file !== 'object' || file === null) throw new Error('a trace is an object');
  const { scenario, ended, at } = { scenario: '', ended: '', at: Number.NaN, ...file };
  return { scenario, ended, at };
}

const traces = readdirSync(folder).map((file) => {
  const text = readFileSync(new URL(file, folder), 'utf8');
  const { scenario, ended, at } = outcomeOf(JSON.parse(text));
  return { scenario, ended, at, trace: parseRecordedTrace(text, file) };
});

describe('replayTrace over what a real GPU did', () => {
  it('has traces to go by', () => {
    expect(traces.length).toBeGreaterThanOrEqual(14);
  });

  it.each(traces)('$scenario, which $ended', ({ scenario, ended, at, trace }) => {
    const { alarms, leak, cause } = replayTrace(trace);
    const grave = alarms.filter(({ risk }) => risk === 'high' || risk === 'critical');
    if (ended === 'completed') {
      expect(grave).toEqual([]);
    } else if (!sudden.has(scenario)) {
      expect(at - (grave[0]?.atSeconds ?? at)).toBeGreaterThanOrEqual(5);
    }
    if (scenario in causes) {
      expect(cause).toBe(causes[scenario]);
      if (causes[scenario] === 'leak') expect(leak.found).toBe(true);
      if (ended === 'completed' && cause !== 'leak') expect(leak.found).toBe(false);
    }
  });

  it('lists an alarm for each rise, never for a fall', () => {
    for (const { trace } of traces) {
      const { alarms } = replayTrace(trace);
      const times = alarms.map(({ atSeconds }) => atSeconds);
      expect(times).toEqual(times.toSorted((a, b) => a - b));
      for (const { risk } of alarms) expect(['low', 'medium', 'high', 'critical']).toContain(risk);
    }
  });
});
