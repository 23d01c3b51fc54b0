import { join } from 'node:path';
import type { Discovery } from '../../device/discover.js';
import { type LocalEngineOptions, localEngine } from '../../engine/local/local-engine.js';
import type { JobVariables } from '../job-variables.js';
import { openDaemon } from './open-daemon.js';
import type { Daemon } from './types.js';

export interface RealDaemonOptions {
  /** The folder in which jobs start; it contains the home. */
  readonly folder: string;
  /** The program of this checkout. */
  readonly command: string;
  readonly discovery: Discovery;
  readonly environment: LocalEngineOptions['environment'];
  readonly engine?: Partial<LocalEngineOptions>;
  readonly variables?: JobVariables;
  readonly log?: (line: string) => void;
}

/** A daemon whose jobs are real processes of this machine, on the host's memory if nothing else is said. */
export function openRealDaemon(options: RealDaemonOptions): Promise<Daemon> {
  const { folder, command, discovery, environment, log } = options;
  const { variables = { useGpus: false } } = options;
  const home = join(folder, 'home');
  const engine = localEngine({
    home,
    command: [process.execPath, command],
    environment,
    folder,
    ...options.engine,
  });
  return openDaemon({ home, discovery, engine, environment, folder, variables, log });
}
