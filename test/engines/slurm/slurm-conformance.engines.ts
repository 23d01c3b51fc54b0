import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { engineConformance } from '../../../src/engine/conformance.suite.js';
import { slurmCommands } from '../../../src/engine/slurm/commands.js';
import { slurmEngine } from '../../../src/engine/slurm/slurm-engine.js';
import { root } from '../../support/project-files.js';
import { takingMemory } from '../processes.js';
import { startCluster } from './slurm-cluster.js';

engineConformance('slurm', async () => {
  const cluster = await startCluster();
  const home = join(cluster.folder, 'home');
  mkdirSync(home);
  const environment = { ...process.env, ...cluster.environment };
  return {
    engine: slurmEngine({
      home,
      run: slurmCommands(environment),
      environment,
      plimsoll: [process.execPath, join(root, 'bin/plimsoll.js')],
      settings: {},
      gpus: [],
    }),
    cwd: cluster.folder,
    taking: takingMemory,
    does: { asksAgain: true, previews: true },
    close: () => cluster.stop(),
  };
});
