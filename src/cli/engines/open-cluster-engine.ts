import { join } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import type { Environment } from '../../config/environment.js';
import type { Settings } from '../../config/settings.js';
import { type ClusterEngine, type ClusterJob, hasClusterEnded } from '../../engine/cluster.js';
import { kubectlHere, kubectlStreamHere } from '../../engine/kubernetes/kubectl.js';
import { kubernetesEngine } from '../../engine/kubernetes/kubernetes-engine.js';
import { rayAddress, rayHttp } from '../../engine/ray/http.js';
import { rayEngine } from '../../engine/ray/ray-engine.js';
import { slurmCommands } from '../../engine/slurm/commands.js';
import { slurmEngine } from '../../engine/slurm/slurm-engine.js';
import { homeFolder, packageFolder } from '../../files/folders.js';
import { sleepFor } from '../client/follow-log.js';
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

/** A cluster's controller serves many: it is not asked more often. */
const lookMs = 2000;

/** Copies what a job prints until it ended, or `signal` aborts; answers how it stands then. */
export async function followClusterJob(
  engine: ClusterEngine,
  id: string,
  options: {
    /** Left out, what it prints is not wanted, and not read. */
    readonly write?: ((text: string) => void) | undefined;
    readonly signal: AbortSignal;
  },
): Promise<ClusterJob> {
  const { write, signal } = options;
  const decoder = new StringDecoder('utf8');
  if (write !== undefined && engine.followLog !== undefined && !signal.aborted) {
    await engine.followLog(id, (bytes) => write(decoder.write(bytes)), signal);
    return engine.job(id);
  }
  let from = 0;
  for (;;) {
    // The state first: what was printed before the end is there then.
    const job = await engine.job(id);
    if (write !== undefined)
      from = await copyNew(engine, id, from, (bytes) => write(decoder.write(bytes)));
    if (hasClusterEnded(job.state) || signal.aborted) return job;
    await sleepFor(lookMs, signal);
  }
}

/** All that is there from this byte on; answers where it ends. */
async function copyNew(
  engine: ClusterEngine,
  id: string,
  from: number,
  take: (bytes: Buffer) => void,
): Promise<number> {
  for (let at = from; ; ) {
    const bytes = await engine.log(id, at);
    if (bytes.length === 0) return at;
    at += bytes.length;
    take(bytes);
  }
}
