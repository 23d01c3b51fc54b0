import { createHash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { checkConfig } from '../../config/check.js';
import { findConfigFile, readConfigFile } from '../../config/config-file.js';
import type { FileChange } from '../../files/change-files.js';
import { dotenvLines } from '../../plan/environment/formats.js';
import { environmentSettings } from '../../plan/environment/rules.js';
import type { EnvironmentContext } from '../../plan/environment/types.js';
import { isKnown } from '../../units/known.js';
import type { TrainingAnswer } from './training-answer.js';

const environmentFile = 'plimsoll.env';
const configFile = 'plimsoll.config.json';

/** A file that an optimization writes, and what for. */
export interface PlannedChange extends FileChange {
  readonly what: string;
}

/** The environment of production as a file; none where it says so already. */
export function environmentChange(
  folder: string,
  context: EnvironmentContext,
): readonly PlannedChange[] {
  const path = join(folder, environmentFile);
  const what = `the environment for production; use it with: set -a; . ./${environmentFile}; set +a`;
  return changed({ path, what, after: dotenvLines(environmentSettings(context)) });
}

/**
 * The settings of a training in the configuration file: the one that was named or found, else a new one
 * in the folder. Other keys stay; what was written before under the same keys is replaced.
 */
export function configurationChange(
  folder: string,
  named: string | undefined,
  training: TrainingAnswer,
): readonly PlannedChange[] {
  const found = named ?? findConfigFile(folder);
  const path = found ?? join(folder, configFile);
  const before = found === undefined ? {} : objectOf(readConfigFile(found, folder, true).value);
  const { batch, accumulation, precision, checkpointing } = training.settings;
  const { workers, pinMemory, persistentWorkers, prefetch } = training.loading;
  const effective = isKnown(batch) && isKnown(accumulation) ? batch * accumulation : undefined;
  const after = {
    ...before,
    training: {
      ...objectOf(before['training']),
      ...(effective !== undefined && { batch: effective }),
      ...(isKnown(precision) && { precision }),
      ...(isKnown(checkpointing) && { checkpointing }),
    },
    loading: {
      ...objectOf(before['loading']),
      workers,
      pinMemory,
      persistentWorkers,
      ...(prefetch > 0 && { prefetch }),
    },
  };
  const place = () => path;
  checkConfig(after, { ofValue: place, ofKey: place });
  const what = 'the settings to train with; commands and plimsoll.session() read them';
  return changed({ path, what, after: `${JSON.stringify(after, undefined, 2)}\n` });
}

/** Left out where the file is so already; one that changes in between is not written. */
export function changed(change: Omit<PlannedChange, 'sha256'>): readonly PlannedChange[] {
  if (!existsSync(change.path)) return [change];
  const before = readFileSync(change.path);
  if (before.toString('utf8') === change.after) return [];
  return [{ ...change, sha256: createHash('sha256').update(before).digest('hex') }];
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}
