import { formatBytes } from '../../units/bytes.js';
import { formatSeconds } from '../../units/durations.js';
import { isKnown } from '../../units/known.js';
import type { Alert, AlertKind, Forecast, Leak } from '../types.js';
import { type AlertInput, type Condition, usedPercent, useLine } from './alert-conditions.js';
import type { AlertThresholds } from './alert-thresholds.js';

/** What an alert says: one sentence a person can act on, and what to do. */
export interface AlertWords {
  readonly message: string;
  readonly recommendations: readonly string[];
}

export function wordsFor(
  condition: Condition,
  state: Alert['state'],
  input: AlertInput,
  thresholds: AlertThresholds,
): AlertWords {
  const message = messageFor(condition, state, input, thresholds);
  return { message, recommendations: state === 'raised' ? adviceFor(condition, input) : [] };
}

export function nameOf({ info }: Pick<AlertInput, 'info'>): string {
  return `${info.id} (${info.name}${info.provenance === 'simulated' ? ', simulated' : ''})`;
}

function messageFor(
  { kind, severity, pid }: Condition,
  state: Alert['state'],
  input: AlertInput,
  thresholds: AlertThresholds,
): string {
  const name = nameOf(input);
  if (kind === 'out-of-memory-risk') return riskMessage(name, state, input.forecast);
  if (kind === 'leak') {
    const leak = pid === undefined ? input.leak : input.processLeaks.get(pid);
    const who = pid === undefined ? name : `${processName(input, pid)} on ${name}`;
    return leakMessage(who, state, leak);
  }
  const { usedBytes, totalBytes } = input.latest;
  const percent = usedPercent(input);
  const share = isKnown(percent) ? `${percent.toFixed(1)} %` : 'an unknown share';
  return (
    `${name} uses ${share} of its memory, ${formatBytes(usedBytes)} of ` +
    `${formatBytes(totalBytes)}; the ${severity} line is ${useLine(kind, thresholds)} %.`
  );
}

function riskMessage(name: string, state: Alert['state'], forecast: Forecast): string {
  const { etaSeconds, lowSeconds, highSeconds, reason } = forecast;
  if (state === 'cleared') return `${name} is no longer about to run out of memory. ${reason}`;
  if (etaSeconds === 0) return `${name} is out of memory, or nearly so. ${reason}`;
  if (typeof etaSeconds !== 'number') return `${name} may run out of memory. ${reason}`;
  const bounded = typeof lowSeconds === 'number' && typeof highSeconds === 'number';
  const between = bounded
    ? ` (between ${formatSeconds(lowSeconds)} and ${formatSeconds(highSeconds)})`
    : '';
  return `${name} is expected to run out of memory in ${formatSeconds(etaSeconds)}${between}. ${reason}`;
}

function leakMessage(who: string, state: Alert['state'], leak: Leak | undefined): string {
  if (state === 'cleared' || !leak) return `${who} does not leak any more.`;
  const rate = isKnown(leak.bytesPerSecond)
    ? `${formatBytes(Math.round(leak.bytesPerSecond))} a second`
    : 'at an unknown rate';
  const grown = isKnown(leak.grownBytes) ? `, ${formatBytes(leak.grownBytes)} so far` : '';
  return `${who} leaks ${rate}${grown}.`;
}

function processName({ processes }: AlertInput, pid: number): string {
  const name = isKnown(processes) ? processes.find((one) => one.pid === pid)?.name : undefined;
  return name === undefined || name === 'unknown' ? `Process ${pid}` : `${name} (process ${pid})`;
}

const seeProcesses = ['See which processes hold the memory, and whether it still grows.'];

/** The forecast brings its own. */
const advice: Readonly<Record<Exclude<AlertKind, 'out-of-memory-risk'>, readonly string[]>> = {
  'memory-warning': seeProcesses,
  'memory-critical': [
    'Stop what need not run now: the kernel kills a process when nothing is left.',
    'Use fewer data loader workers, or smaller caches.',
  ],
  'gpu-warning': seeProcesses,
  'gpu-critical': [
    'Lower the batch size, or turn on gradient checkpointing.',
    'Stop what need not run on this device.',
  ],
  leak: [
    'Look for tensors kept in a list or a closure, and for a loss added up without .item().',
    'Record a memory snapshot to see the stack that holds the memory.',
  ],
};

function adviceFor({ kind }: Condition, { forecast }: AlertInput): readonly string[] {
  return kind === 'out-of-memory-risk' ? forecast.recommendations : advice[kind];
}
