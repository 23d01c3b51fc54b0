import { Failure } from '../failure.js';
import { changesOf, type EnvironmentChange } from '../plan/environment/job-environment.js';
import type { Clock } from '../time/clock.js';
import type { AdaptedConfig } from './adapt/adapted-config.js';
import { fillCommand } from './placeholders.js';
import { checkProgram } from './program.js';
import { newRunId, RunFolder } from './store/run-folder.js';
import type { RunPlan } from './store/run-plan.js';
import { takeRun } from './store/supervisor-lock.js';
import type { RunSettings, SpillMode } from './types.js';

/** How a run begins where nothing else was asked for. */
export const runDefaults = {
  accumulation: 1,
  precision: 'fp32',
  maxAttempts: 8,
  graceSeconds: 5,
} as const;

export interface NewRunOptions {
  readonly command: readonly string[];
  readonly batchSize?: number | undefined;
  readonly accumulation: number;
  readonly config?: AdaptedConfig | undefined;
  readonly precision: string;
  readonly memoryBytes?: number | undefined;
  readonly contextBytes?: number | undefined;
  readonly spill?: SpillMode | undefined;
  readonly maxAttempts: number;
  /** The id of its device, and whether somebody named it. */
  readonly device: string;
  readonly isSimulated?: boolean;
  readonly pinnedDevice: boolean;
  readonly folder: string;
  readonly environment: Readonly<Record<string, string | undefined>>;
  /** What that environment has otherwise than the person's own. */
  readonly environmentChanges?: readonly EnvironmentChange[];
  readonly home: string;
  readonly reports: readonly string[];
  readonly clock: Clock;
  readonly procRoot: string;
}

/** Checks the command and makes the folder of a run, which this process supervises from here on. */
export function newRun(options: NewRunOptions): {
  readonly plan: RunPlan;
  readonly folder: RunFolder;
} {
  const { command, clock, home } = options;
  const settings: RunSettings = {
    batch_size: options.batchSize ?? 'unknown',
    accumulation: options.accumulation,
    checkpointing: false,
    precision: options.precision,
    offload: false,
    device: options.device,
    ...(options.isSimulated === true && { simulated_device: true }),
  };
  const [program = ''] = fillCommand(command, settings, 1);
  checkProgram(program, options.folder, options.environment);
  const id = newRunId(clock.epochMs());
  const folder = new RunFolder(home, id);
  makeFolder(folder, home, options.procRoot);
  const plan = folder.create({
    schema: 1,
    id,
    command,
    folder: options.folder,
    createdAt: new Date(clock.epochMs()).toISOString(),
    settings,
    memoryBytes: options.memoryBytes ?? null,
    contextBytes: options.contextBytes,
    spill: options.spill,
    maxAttempts: options.maxAttempts,
    pinnedDevice: options.pinnedDevice,
    reports: options.reports,
    config: options.config,
    ...changesOf(options),
  });
  return { plan, folder };
}

function makeFolder(folder: RunFolder, home: string, procRoot: string): void {
  try {
    takeRun(folder.path, procRoot);
  } catch (error) {
    throw new Failure({
      kind: 'missing',
      code: 'cannot-keep-state',
      fact: `The state of a run cannot be written to ${home}: ${error instanceof Error ? error.message : String(error)}.`,
      next: 'Set PLIMSOLL_HOME to a folder that can be written.',
      cause: error,
    });
  }
}
