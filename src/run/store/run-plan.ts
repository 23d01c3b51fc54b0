import { join } from 'node:path';
import { readOwnDocument } from '../../files/own-file.js';
import type { EnvironmentChange } from '../../plan/environment/job-environment.js';
import { MiB } from '../../units/bytes.js';
import type { AdaptedConfig } from '../adapt/adapted-config.js';
import type { LogLimit } from '../log/log-limit.js';
import type { Account, RunSettings, SpillMode } from '../types.js';

/** What a run was asked to be; it does not change. */
export interface RunPlan {
  readonly schema: 1;
  readonly id: string;
  readonly command: readonly string[];
  readonly folder: string;
  readonly createdAt: string;
  /** What the first attempt is told. */
  readonly settings: RunSettings;
  /** What it may take of its device, or of the host. */
  readonly memoryBytes: number | null;
  /** What of that the CUDA context takes on its GPU; left out, `memoryBytes` is the allocator's. */
  readonly contextBytes?: number | undefined;
  /** Left out in what was kept before memory could give way: `auto`. */
  readonly spill?: SpillMode | undefined;
  readonly maxAttempts: number;
  /** Whether the device was named, so that the program shall see no other. */
  readonly pinnedDevice: boolean;
  readonly bridge: string;
  /** Files that the person asked for. */
  readonly reports: readonly string[];
  /** All that it may see, where that is more than the one of its settings. */
  readonly devices?: readonly string[] | undefined;
  /** The file that takes what it prints, whichever process supervises it. */
  readonly log?: string | undefined;
  /** How much of that file is kept, where it is not what jobs have. */
  readonly logLimit?: LogLimit | undefined;
  /** What the program gets on top of its supervisor's environment. */
  readonly environment?: Readonly<Record<string, string>> | undefined;
  /** What of its environment was changed, for the report. */
  readonly environmentChanges?: readonly EnvironmentChange[] | undefined;
  /** The file of the command whose batch changes at a restart. */
  readonly config?: AdaptedConfig | undefined;
  /** What the program runs as; left out, what its supervisor is. */
  readonly account?: Account | undefined;
}

/**
 * What is enforced on a device: on the host of all that the processes take, on a GPU of what PyTorch
 * reserves beside the context.
 *
 * @example
 * limitOn({ memoryBytes: 8 * GiB, contextBytes: GiB }, 'gpu:0'); // 7 GiB
 */
export function limitOn(
  { memoryBytes, contextBytes = 0 }: Pick<RunPlan, 'memoryBytes' | 'contextBytes'>,
  device: string,
): number | undefined {
  if (memoryBytes === null) return undefined;
  return device === 'host' ? memoryBytes : Math.max(1, memoryBytes - contextBytes);
}

/** A command and an environment have some MiB at most; JSON writes a character in up to six bytes. */
const maxBytes = 64 * MiB;

export function planFile(runFolder: string): string {
  return join(runFolder, 'run.json');
}

/** The plan of a run; undefined where there is none, or what is there is not whole. */
export function readPlan(runFolder: string): RunPlan | undefined {
  const plan = readOwnDocument(planFile(runFolder), { schema: 1, maxBytes });
  return plan !== undefined && isPlan(plan) ? plan : undefined;
}

type Document = Readonly<Record<string, unknown>>;

function isPlan(plan: Document): plan is Document & RunPlan {
  const { command, reports, settings, memoryBytes, maxAttempts } = plan;
  return (
    [plan['id'], plan['folder'], plan['createdAt'], plan['bridge']].every(isText) &&
    isTexts(command) &&
    command.length > 0 &&
    isTexts(reports) &&
    isSettings(settings) &&
    (memoryBytes === null || typeof memoryBytes === 'number') &&
    typeof maxAttempts === 'number'
  );
}

export function isSettings(value: unknown): value is RunSettings {
  const { device, precision, accumulation }: Document = { ...Object(value) };
  return isText(device) && isText(precision) && typeof accumulation === 'number';
}

export function isText(value: unknown): value is string {
  return typeof value === 'string';
}

export function isTexts(value: unknown): value is readonly string[] {
  return Array.isArray(value) && value.every(isText);
}
