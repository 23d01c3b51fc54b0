import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { Failure } from '../../failure.js';
import type { ClusterEngine, ClusterJob, ClusterOrder } from '../cluster.js';
import { type GpuSharing, jobManifest, jobName } from './job-manifest.js';

/** Runs kubectl with something on its standard input, and answers what it printed. */
export type Kubectl = (words: readonly string[], input: string) => Promise<string>;

export interface KubernetesOptions {
  readonly kubectl: Kubectl;
  readonly image: string | undefined;
  readonly namespace: string | undefined;
  readonly sharing: GpuSharing;
  /** Of the program. */
  readonly environment: Readonly<Record<string, string>>;
}

/** An API server that does not answer is given up after this. */
const timeoutMs = 60_000;

/** kubectl as this machine has it. */
export function kubectlHere(environment: Readonly<Record<string, string | undefined>>): Kubectl {
  return (words, input) =>
    new Promise((resolve, reject) => {
      const options = { env: environment, timeout: timeoutMs };
      const child = execFile('kubectl', [...words], options, (error, stdout, stderr) => {
        if (error === null) resolve(stdout);
        else reject(failureOf(error, stderr));
      });
      // A program that ended already reads nothing.
      child.stdin?.on('error', () => {});
      child.stdin?.end(input);
    });
}

/** Jobs of a Kubernetes cluster; it places them, and its own tools list, show and delete them. */
export function kubernetesEngine(options: KubernetesOptions): ClusterEngine {
  const write = (order: ClusterOrder): { readonly id: string; readonly text: string } => {
    const { image, namespace, sharing, environment } = options;
    if (image === undefined) throw noImage();
    const id = jobName(order.name, randomBytes(3).toString('hex'));
    const manifest = jobManifest({ order, id, image, namespace, sharing, environment });
    return { id, text: `${JSON.stringify(manifest, undefined, 2)}\n` };
  };
  return {
    name: 'kubernetes',
    placesJobs: true,
    enforces: { gpu: 'HAMi, or the SDK in the process', host: 'the cgroup of the container' },
    devices: () => Promise.resolve([]),
    preview: async (order) => write(order).text,
    async submit(order) {
      const { id, text } = write(order);
      await options.kubectl(['create', '-f', '-'], text);
      return submittedJob(order, id);
    },
    jobs: () => Promise.reject(useKubectl('get jobs -l app.kubernetes.io/managed-by=plimsoll')),
    job: (id) => Promise.reject(useKubectl(`get job ${id}`)),
    log: (id) => Promise.reject(useKubectl(`logs -f job/${id}`)),
    cancel: (id) => Promise.reject(useKubectl(`delete job ${id}`)),
    use: () => Promise.reject(useKubectl('describe nodes')),
  };
}

function submittedJob(order: ClusterOrder, id: string): ClusterJob {
  const { name, command, gpus, needBytes, basis } = order;
  const submittedAt = new Date().toISOString();
  return {
    engine: 'kubernetes',
    id,
    name,
    command,
    state: 'waiting',
    why: `kubectl get job ${id}`,
    gpus,
    needBytes,
    basis,
    nodes: '',
    submittedAt,
    attempts: [],
    notes: [],
    tasks: null,
  };
}

function noImage(): Failure {
  return new Failure({
    kind: 'input',
    code: 'no-image',
    fact: 'A job of Kubernetes runs in a container, and no image was named.',
    next: 'Add --container-image, such as --container-image pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime.',
  });
}

function useKubectl(words: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'use-kubectl',
    fact: 'Plimsoll submits jobs to Kubernetes; kubectl lists, shows and ends them.',
    next: `Run: kubectl ${words.slice(0, 200)}`,
  });
}

function failureOf(error: Error, stderr: string): Failure {
  if ('code' in error && error.code === 'ENOENT') {
    return new Failure({
      kind: 'missing',
      code: 'no-kubectl',
      fact: 'The command kubectl was not found.',
      next: 'Install it, or print the manifest with --dry-run.',
    });
  }
  const said = stderr.trim().split('\n').at(-1) || error.message;
  return new Failure({
    kind: 'missing',
    code: 'kubectl-failed',
    fact: `kubectl failed: ${said.slice(0, 400)}`,
    next: 'See "kubectl cluster-info"; --dry-run prints the manifest.',
    cause: error,
  });
}
