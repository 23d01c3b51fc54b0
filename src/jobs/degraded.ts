import type { WorkloadRequest } from '../plan/answers/workload-request.js';
import { bytesToReserve } from '../plan/fit/fit.js';
import { type ChangeableSetting, changeableSettings, type Plan } from '../plan/fit/types.js';
import { placeholdersOf } from '../run/placeholders.js';

/** Settings that replace the requested ones, so that a job fits. */
export interface DegradedSettings {
  readonly batch: number;
  readonly accumulation: number;
  /** Switched on for it; absent where it is as it was. */
  readonly checkpointing?: true | undefined;
  /** Lowered for it; absent where it is as it was. */
  readonly precision?: string | undefined;
}

/** Settings with which a job that is too large fits after all. */
export interface Degraded {
  /** On each device, estimated for exactly these settings. */
  readonly bytes: number;
  readonly settings: DegradedSettings;
}

/**
 * The settings that a command can be started with otherwise: those that it has a place for. A smaller
 * batch needs both, so that the effective batch stays.
 *
 * @example
 * changeableSettingsOf(['train', '--batch={batch_size}', '--steps={accumulation}']); // ['accumulation']
 */
export function changeableSettingsOf(command: readonly string[]): readonly ChangeableSetting[] {
  const placeholders = placeholdersOf(command);
  return changeableSettings.filter((setting) =>
    setting === 'accumulation'
      ? placeholders.has('accumulation') && placeholders.has('batch_size')
      : placeholders.has(setting),
  );
}

/** A program is told this one where its workload names none. */
export const programPrecision = 'fp32';

/**
 * Returns the changes of a plan for a device of `offerBytes`; undefined if there are none. The job
 * may still be too large: then `bytes` is the need of the smallest settings.
 */
export function degradedBy(
  { settings, estimate }: Pick<Plan, 'settings' | 'estimate'>,
  asked: Pick<WorkloadRequest, 'checkpointing' | 'precision'>,
  offerBytes: number,
): Degraded | undefined {
  const { batch, accumulation, checkpointing, precision } = settings;
  const switchedOn = checkpointing && asked.checkpointing !== true;
  const lowered = precision !== (asked.precision ?? programPrecision);
  if (accumulation === 1 && !switchedOn && !lowered) return undefined;
  return {
    bytes: bytesToReserve(estimate, offerBytes),
    settings: {
      batch,
      accumulation,
      ...(switchedOn && { checkpointing: true }),
      ...(lowered && { precision }),
    },
  };
}

/** `batch 8 x 4, checkpointing and bf16`. */
export function degradedSettingsWords(settings: DegradedSettings): string {
  const { batch, accumulation, checkpointing, precision } = settings;
  const parts = [
    `batch ${batch} x ${accumulation}`,
    ...(checkpointing ? ['checkpointing'] : []),
    ...(precision === undefined ? [] : [precision]),
  ];
  const last = parts.at(-1) ?? '';
  return parts.length === 1 ? last : `${parts.slice(0, -1).join(', ')} and ${last}`;
}
