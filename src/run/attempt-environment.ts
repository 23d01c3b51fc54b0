import { delimiter, join } from 'node:path';
import { settingsVariables } from './placeholders.js';
import type { RunSettings, SpillMode } from './types.js';

/** By this the processes of a run are known, wherever they went. */
export const runIdVariable = 'PLIMSOLL_RUN_ID';

/** The first of them is the one that every version knows. */
const allocatorNames = ['PYTORCH_CUDA_ALLOC_CONF', 'PYTORCH_ALLOC_CONF'] as const;

/** The settings of PyTorch's allocator that the person has, and expandable segments with them. */
function allocatorSettings(
  own: Readonly<Record<string, string | undefined>>,
): Readonly<Record<string, string>> {
  const name = allocatorNames.find((one) => own[one]) ?? allocatorNames[0];
  const given = own[name];
  if (given?.includes('expandable_segments')) return {};
  return { [name]: [...(given ? [given] : []), 'expandable_segments:True'].join(',') };
}

/** After the rung `spill` the SDK spills from the first step on, with room for the request that failed. */
function spillVariables(
  { spill_headroom_bytes: headroom }: RunSettings,
  mode: SpillMode,
): Readonly<Record<string, string>> {
  if (headroom === undefined) return { PLIMSOLL_SPILL: mode };
  return { PLIMSOLL_SPILL: 'always', PLIMSOLL_SPILL_HEADROOM_BYTES: String(headroom) };
}

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
  readonly spill: SpillMode;
  /** The driver's names of the only GPUs that it shall see; `none` hides all of them. */
  readonly visible: string | undefined;
}): Readonly<Record<string, string | undefined>> {
  const { own, pythonFolder, visible } = options;
  const auto = join(pythonFolder, 'plimsoll', '_auto');
  const paths = [auto, pythonFolder, ...(own['PYTHONPATH'] ? [own['PYTHONPATH']] : [])];
  return {
    ...own,
    ...(options.settings.expandable_segments === true && allocatorSettings(own)),
    ...settingsVariables(options.settings, options.attempt, visible !== undefined),
    [runIdVariable]: options.id,
    PLIMSOLL_BRIDGE: options.bridge,
    ...(options.sdkFolder !== undefined && { PLIMSOLL_RUN_DIR: options.sdkFolder }),
    PLIMSOLL_AUTO: '1',
    ...spillVariables(options.settings, options.spill),
    PYTHONPATH: paths.join(delimiter),
    ...(options.memoryBytes === undefined
      ? {}
      : { PLIMSOLL_MEMORY_BYTES: String(options.memoryBytes) }),
    ...(visible === undefined ? {} : { CUDA_VISIBLE_DEVICES: visible === 'none' ? '' : visible }),
  };
}
