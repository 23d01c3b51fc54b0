import type { ClusterAttempt, ClusterJob } from '../cluster.js';
import type { RayAttempt, RayEnd, RayJobFolder, RayOrder } from './job-folder.js';
import type { RayRequest } from './request.js';
import type { Standing } from './standing.js';

/** A job as its files and Ray tell together. */
export function jobView(
  folder: RayJobFolder,
  order: RayOrder,
  { state, why }: Pick<Standing, 'state' | 'why'>,
  node: string | undefined,
): ClusterJob {
  const attempts = folder.attempts('all');
  const ends = attempts.map(({ number }) => folder.end('all', number));
  return {
    engine: 'ray',
    id: folder.id,
    name: order.name,
    command: order.command,
    state,
    why,
    gpus: order.gpus,
    needBytes: order.needBytes,
    basis: order.basis,
    nodes: node ?? ends.at(-1)?.node ?? '',
    submittedAt: order.submittedAt,
    attempts: attempts.map((attempt, index) => attemptView(folder, attempt, ends[index])),
    notes: attempts.at(-1)?.request.notes ?? [],
    tasks: null,
  };
}

function attemptView(
  folder: RayJobFolder,
  attempt: RayAttempt,
  end: RayEnd | undefined,
): ClusterAttempt {
  const { limitBytes } = attempt.request;
  return {
    number: attempt.number,
    clusterId: folder.idOf(attempt),
    request: askedWords(attempt.request),
    reservedBytes: typeof limitBytes === 'number' ? limitBytes : 'unknown',
    peakBytes: end?.peakBytes ?? 'unknown',
    outOfMemory: end?.outOfMemory ?? false,
    exitCode: end?.exitCode ?? 'unknown',
  };
}

/** In Ray's words. */
function askedWords({ numGpus, memoryBytes, numCpus, resources, labels }: RayRequest): string {
  const kinds = [...Object.keys(resources), ...Object.values(labels)];
  const parts = [
    ...(numGpus === 0 ? [] : [`num_gpus=${numGpus}`]),
    ...(memoryBytes === 0 ? [] : [`memory=${memoryBytes}`]),
    ...(numCpus === 0 ? [] : [`num_cpus=${numCpus}`]),
    ...kinds,
  ];
  return parts.join(' ');
}
