import { availableParallelism, freemem } from 'node:os';
import type { Settings } from '../../config/settings.js';
import { type LoadingSettings, loadingSettings } from '../../optimize/loading-settings.js';

/** How to load data on this machine, for a training on a card or on the host. */
export function loadingHere({ loading }: Settings, hasCard: boolean): LoadingSettings {
  return loadingSettings({
    cores: availableParallelism(),
    hostFreeBytes: freemem(),
    gpus: hasCard ? 1 : 0,
    fixed: loading,
  });
}
