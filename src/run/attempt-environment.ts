import { delimiter, join } from 'node:path';
import { settingsVariables } from './placeholders.js';
import type { RunSettings } from './types.js';

/** By this the processes of a run are known, wherever they went. */
export const runIdVariable = 'PLIMSOLL_RUN_ID';

/** The environment of a job: the person's own, and what tells its SDK who watches over it. */
export function jobEnvironment(options: {
  readonly own: Readonly<Record<string, string | undefined>>;
  readonly settings: RunSettings;
  readonly attempt: number;
  readonly id: string;
  readonly bridge: string;
  /** Where the SDK keeps its files; undefined where it shall keep none. */
  readonly sdkFolder: string | undefined;
  readonly pythonFolder: string;
  readonly memoryBytes: number | undefined;
  /** The driver's names of the only GPUs that it shall see; `none` hides all of them. */
  readonly visible: string | undefined;
}): Readonly<Record<string, string | undefined>> {
  const { own, pythonFolder, visible } = options;
  const auto = join(pythonFolder, 'plimsoll', '_auto');
  const paths = [auto, pythonFolder, ...(own['PYTHONPATH'] ? [own['PYTHONPATH']] : [])];
  return {
    ...own,
    ...settingsVariables(options.settings, options.attempt, visible !== undefined),
    [runIdVariable]: options.id,
    PLIMSOLL_BRIDGE: options.bridge,
    ...(options.sdkFolder !== undefined && { PLIMSOLL_RUN_DIR: options.sdkFolder }),
    PLIMSOLL_AUTO: '1',
    PYTHONPATH: paths.join(delimiter),
    ...(options.memoryBytes === undefined
      ? {}
      : { PLIMSOLL_MEMORY_BYTES: String(options.memoryBytes) }),
    ...(visible === undefined ? {} : { CUDA_VISIBLE_DEVICES: visible === 'none' ? '' : visible }),
  };
}
