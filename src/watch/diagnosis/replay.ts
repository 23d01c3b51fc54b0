import {
  type RecordedTrace,
  readRecordedTrace,
  type TraceRow,
} from '../../device/recorded-trace.js';
import { checkArguments, madeBy } from '../../units/arguments.js';
import { isKnown, type Known } from '../../units/known.js';
import { type Cause, type Forecast, type MemoryPoint, type Risk, risks } from '../types.js';
import { createDiagnosis } from './diagnose.js';
import type { Probability } from './probability.js';

/** A rise of the risk while a series was replayed. */
export interface Alarm {
  readonly atSeconds: number;
  readonly risk: Exclude<Risk, 'none'>;
  readonly etaSeconds: Forecast['etaSeconds'];
  readonly lowSeconds: Forecast['lowSeconds'];
  readonly highSeconds: Forecast['highSeconds'];
}

export interface Replay {
  readonly alarms: readonly Alarm[];
  readonly leak: { readonly found: Known<boolean>; readonly bytesPerSecond: Known<number> };
  readonly cause: Cause;
  /** Where asked for: how likely the limit is reached within a time, each time that it changed. */
  readonly probabilities?: readonly ProbabilityAt[];
}

export interface ProbabilityAt extends Probability {
  readonly atSeconds: number;
}

export interface ReplayOptions {
  readonly probabilities?: boolean | undefined;
}

/**
 * What `plimsoll replay` answers: a recorded file through the forecaster, at the times recorded.
 *
 * @example
 * const { alarms } = await replay('profile.json', 'gpu:0');
 */
export async function replay(
  path: string,
  deviceId?: string,
  options?: ReplayOptions,
): Promise<Replay> {
  return replayTrace(await readRecordedTrace(path, deviceId), options);
}

/**
 * Feeds a recorded series through the forecaster that live samples go through, row by row, and
 * lists each rise of the risk.
 *
 * @example
 * const { alarms } = replayTrace(await readRecordedTrace('trace.json'));
 */
export function replayTrace(trace: RecordedTrace, options: ReplayOptions = {}): Replay {
  checkArguments('replayTrace', { trace }, { trace: madeBy('readRecordedTrace', 'rows') });
  const steps = replaySteps(trace, options);
  for (;;) {
    const { done, value } = steps.next();
    if (done === true) return value;
  }
}

/** So many rows take some hundredths of a second. */
const rowsEachStep = 10_000;

/** The same in short pieces, for a thread that has more to do; each tells how far it is, from 0 to 1. */
export function* replaySteps(
  trace: RecordedTrace,
  options: ReplayOptions = {},
): Generator<number, Replay, void> {
  const diagnosis = createDiagnosis();
  const alarms: Alarm[] = [];
  const probabilities: ProbabilityAt[] = [];
  let told: Forecast['probability'] = 'unknown';
  let before: Risk = 'none';
  for (const [at, row] of trace.rows.entries()) {
    if (at % rowsEachStep === 0) yield at / trace.rows.length;
    const point = pointOf(row, trace.capacityBytes);
    if (!point) continue;
    diagnosis.add(point);
    const { risk, probability, etaSeconds, lowSeconds, highSeconds } = diagnosis.forecast();
    if (options.probabilities && isKnown(probability) && probability !== told) {
      probabilities.push({ atSeconds: row.seconds, ...probability });
    }
    told = probability;
    const now = isKnown(risk) ? risk : 'none';
    if (now !== 'none' && risks.indexOf(now) > risks.indexOf(before)) {
      alarms.push({ atSeconds: row.seconds, risk: now, etaSeconds, lowSeconds, highSeconds });
    }
    before = now;
  }
  const { found, bytesPerSecond } = diagnosis.leak();
  const answer = { alarms, leak: { found, bytesPerSecond }, cause: diagnosis.cause() };
  return options.probabilities ? { ...answer, probabilities } : answer;
}

/** What the allocator holds counts against its cap; without an allocator, what the device has. */
function pointOf(row: TraceRow, limitBytes: number): MemoryPoint | undefined {
  const { seconds, allocatedBytes, reservedBytes, deviceUsedBytes } = row;
  if (isKnown(reservedBytes) && isKnown(allocatedBytes)) {
    return { seconds, limitBytes, heldBytes: reservedBytes, liveBytes: allocatedBytes };
  }
  const heldBytes = [reservedBytes, allocatedBytes, deviceUsedBytes].find(isKnown);
  return heldBytes === undefined ? undefined : { seconds, limitBytes, heldBytes };
}
