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
  /** Whether the program is told of the SDK and of who watches over it; it is where this is left out. */
  readonly hasSdk?: boolean;
  readonly sdkFolder: string;
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
    ...(options.hasSdk !== false && {
      PLIMSOLL_BRIDGE: options.bridge,
      PLIMSOLL_RUN_DIR: options.sdkFolder,
      PLIMSOLL_AUTO: '1',
      PYTHONPATH: paths.join(delimiter),
    }),
    ...(options.memoryBytes === undefined
      ? {}
      : { PLIMSOLL_MEMORY_BYTES: String(options.memoryBytes) }),
    ...(visible === undefined ? {} : { CUDA_VISIBLE_DEVICES: visible === 'none' ? '' : visible }),
  };
}
