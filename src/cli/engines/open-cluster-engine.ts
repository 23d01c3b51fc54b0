import { join } from 'node:path';
import type { Settings } from '../../config/settings.js';
import type { Environment } from '../../config/variables.js';
import type { ClusterEngine } from '../../engine/cluster.js';
import { slurmCommands } from '../../engine/slurm/commands.js';
import { slurmEngine } from '../../engine/slurm/slurm-engine.js';
import { homeFolder } from '../../files/home-folder.js';
import { packageFolder } from '../../files/package-folder.js';

/** Slurm, as a person with this environment reaches it. */
export function openSlurm(settings: Settings, environment: Environment): ClusterEngine {
  return slurmEngine({
    home: homeFolder(environment),
    run: slurmCommands(environment),
    plimsoll: [process.execPath, join(packageFolder, 'bin/plimsoll.js')],
    settings: settings.slurm ?? {},
    gpus: settings.gpus ?? [],
  });
}
