import { type Discovery, discoverDevices, type SimulateOptions } from '../device/discover.js';
import type { Settings } from './settings.js';

/** The devices that the settings ask for: those of this machine, or simulated ones. */
export function openDevices({
  simulate,
  nvmlLibrary,
}: Pick<Settings, 'simulate' | 'nvmlLibrary'>): Promise<Discovery> {
  return discoverDevices({
    ...(simulate === undefined ? {} : { simulate: simulationOf(simulate) }),
    ...(nvmlLibrary === undefined ? {} : { libraryPath: nvmlLibrary }),
  });
}

/** Scenarios are plain words; anything like a path is a trace. */
function simulationOf(text: string): SimulateOptions {
  return /[\\/.]/.test(text) ? { trace: text } : { scenario: text };
}
