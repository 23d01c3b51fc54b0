import type { Fleet, FleetHistory } from './document.js';
import { fleetOf } from './fleet.js';
import {
  type HistoryQueryName,
  historyQueries,
  historyQueryNames,
  type InstantQueryName,
  instantQueries,
  instantQueryNames,
} from './fleet-devices.js';
import type { Prometheus } from './prometheus.js';
import { type Line, type Point, prometheusLimits } from './read-answer.js';

/** Enough for a line across a page. */
const historyPoints = 120;

export interface FleetQuestion {
  readonly nowMs: number;
  /** How far back peaks, silent nodes and the history go. */
  readonly windowSeconds: number;
  readonly signal: AbortSignal;
}

/** Asks all queries, some at a time, and puts the answers together. */
export async function askFleet(
  prometheus: Prometheus,
  { nowMs, windowSeconds, signal }: FleetQuestion,
): Promise<Fleet> {
  const expressions = instantQueries(windowSeconds);
  const answers = emptyAnswers();
  const lines: Partial<Record<(typeof historyQueryNames)[number], Line>> = {};
  const range = {
    from: nowMs / 1000 - windowSeconds,
    to: nowMs / 1000,
    stepSeconds: Math.max(1, Math.ceil(windowSeconds / historyPoints)),
  };
  // The first that fails ends the others.
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  const tasks = [
    ...instantQueryNames.map((name) => async () => {
      answers[name] = await prometheus.points(expressions[name], either);
    }),
    ...historyQueryNames.map((name) => async () => {
      const [line] = await prometheus.lines(historyQueries[name], range, either);
      if (line !== undefined) lines[name] = line;
    }),
  ];
  try {
    await atMost(prometheusLimits.atOnce, tasks);
  } catch (error) {
    stop.abort();
    throw error;
  }
  return fleetOf({ epochMs: nowMs, windowSeconds, answers, history: fleetHistory(lines) });
}

function emptyAnswers(): Record<InstantQueryName, readonly Point[]> {
  const none: readonly Point[] = [];
  return {
    nodes: none,
    devices: none,
    earlierDevices: none,
    used: none,
    loadLine: none,
    risk: none,
    outOfMemory: none,
    leak: none,
    processLeaks: none,
    jobReserved: none,
    jobUsed: none,
    jobPeak: none,
    ranks: none,
  };
}

async function atMost(count: number, tasks: readonly (() => Promise<void>)[]): Promise<void> {
  const waiting = [...tasks];
  const work = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) await next();
  };
  await Promise.all(Array.from({ length: count }, work));
}

/** The lines on one axis of time; null where a line has no point. */
function fleetHistory(lines: Readonly<Partial<Record<HistoryQueryName, Line>>>): FleetHistory {
  const values = (name: HistoryQueryName) => new Map(lines[name]?.points);
  const [total, used, reserved] = [
    values('totalBytes'),
    values('usedBytes'),
    values('reservedBytes'),
  ];
  const moments = [...new Set([...total.keys(), ...used.keys(), ...reserved.keys()])].toSorted(
    (one, other) => one - other,
  );
  const column = (of: ReadonlyMap<number, number>) =>
    moments.map((moment) => of.get(moment) ?? null);
  return {
    epochMs: moments.map((moment) => Math.round(moment * 1000)),
    totalBytes: column(total),
    usedBytes: column(used),
    reservedBytes: column(reserved),
  };
}
