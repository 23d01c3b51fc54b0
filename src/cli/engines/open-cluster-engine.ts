import { join } from 'node:path';
import type { Environment } from '../../config/environment.js';
import type { Settings } from '../../config/settings.js';
import type { ClusterEngine } from '../../engine/cluster.js';
import { kubectlHere, kubectlStreamHere } from '../../engine/kubernetes/kubectl.js';
import { kubernetesEngine } from '../../engine/kubernetes/kubernetes-engine.js';
import { rayAddress, rayHttp } from '../../engine/ray/http.js';
import { rayEngine } from '../../engine/ray/ray-engine.js';
import { slurmCommands } from '../../engine/slurm/commands.js';
import { slurmEngine } from '../../engine/slurm/slurm-engine.js';
import { packageFolder } from '../../files/folders.js';
import { homeFolder } from '../../files/home-folder.js';
import type { EngineArguments } from './engine-option.js';

/** What a cluster's engine is opened with. */
export interface ClusterPlace {
  readonly settings: Settings;
  readonly environment: Environment;
  /** Of programs that are submitted, where a cluster does not hand on that of its commands. */
  readonly programEnvironment: Readonly<Record<string, string>>;
}

/** The cluster that was named, as a person with this environment reaches it. */
export function openCluster(
  given: EngineArguments,
  { settings, environment, programEnvironment }: ClusterPlace,
): ClusterEngine {
  const { engine, address } = given;
  if (engine === 'kubernetes') {
    return kubernetesEngine({
      kubectl: kubectlHere(environment),
      kubectlStream: kubectlStreamHere(environment),
      image: given.containerImage,
      namespace: given.namespace,
      sharing: given.gpuSharing ?? 'none',
      supervision: given.supervisor ?? 'auto',
      host: { memoryBytes: given.hostMemory, cpus: given.cpus },
      environment: programEnvironment,
    });
  }
  const common = {
    home: homeFolder(environment),
    plimsoll: [process.execPath, join(packageFolder, 'bin/plimsoll.js')],
    gpus: settings.gpus ?? [],
  };
  if (engine === 'ray') {
    const own = settings.ray ?? {};
    const http = rayHttp(rayAddress(address, environment, own.address), { environment });
    return rayEngine({ ...common, http, environment: programEnvironment, settings: own });
  }
  return slurmEngine({
    ...common,
    run: slurmCommands(environment),
    environment,
    settings: settings.slurm ?? {},
  });
}
