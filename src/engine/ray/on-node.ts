import { spawn } from 'node:child_process';
import { hostname } from 'node:os';
import { Failure } from '../../failure.js';
import { homeOfAttempt, type NodeEdges, nodeRunVariable, runAttempt } from '../node/run-attempt.js';
import type { RayHttp } from './http.js';
import type { RayAttempt, RayJobFolder, RayOrder } from './job-folder.js';
import type { RayOffer } from './nodes.js';
import { rayRequest } from './request.js';
import { submitToRay } from './submission.js';

/** The parts that the node's side of a job may use. */
export interface RayNodeParts extends NodeEdges {
  readonly folder: RayJobFolder;
  readonly number: number;
  readonly restart: number;
  /** The dashboard at an address. */
  readonly at: (address: string) => RayHttp;
  readonly offers: (http: RayHttp) => Promise<readonly RayOffer[]>;
  /** Ends what is left of a run in this folder when Ray has killed the shell of the job. */
  readonly endWithShell: (home: string) => void;
}

/** Variables that Ray sets for each start of a job; those of the person must not take their place. */
const ofRay = /^(RAY_|CUDA_VISIBLE_DEVICES$|ROCR_VISIBLE_DEVICES$|HIP_VISIBLE_DEVICES$|TMPDIR$)/;

/**
 * Runs one attempt of a job as the entrypoint of a job of Ray. The program has ended when the next
 * attempt is submitted, so that never two of them run.
 */
export async function runOnRayNode(parts: RayNodeParts): Promise<number> {
  const { folder, number, restart } = parts;
  const order = folder.order();
  const attempt = folder.attempt('all', number);
  if (order === undefined || attempt === undefined) throw notOurs(folder.path);
  const clusterId = folder.idOf({ number, restart });
  const isOver = folder.isCancelled || folder.end('all', number) !== undefined;
  if (isOver || attempt.restart !== restart) {
    parts.notify('plimsoll: this attempt was cancelled or submitted again: nothing is run.');
    folder.markEnded(clusterId, restart);
    return 0;
  }
  const own = Object.entries(order.environment).filter(([name]) => !ofRay.test(name));
  const environment = { ...parts.environment, ...Object.fromEntries(own) };
  const { limitBytes, contextBytes } = attempt.request;
  parts.endWithShell(homeOfAttempt({ folder, clusterId, restart, environment }));
  return runAttempt({
    ...parts,
    environment,
    order,
    task: 'all',
    clusterId,
    node: hostname(),
    limit: { limitBytes, contextBytes, isOfHost: order.gpus === 0 },
    endWith: (end) => ({ ...end, rayState: '' }),
    async submitNext(next, bytes) {
      const http = await headOf(parts, order, clusterId);
      const offers = http === undefined ? order.offers : await parts.offers(http);
      const request = rayRequest({ bytes, gpus: order.gpus }, offers);
      const larger: RayAttempt = {
        schema: 1,
        number: next,
        restart: 0,
        session: 'unknown',
        request,
      };
      // Another start of this job may have decided already; its decision stands.
      folder.claimAttempt('all', larger);
      const decided = folder.attempt('all', next) ?? larger;
      const { why } = decided.request;
      if (http === undefined) {
        return `No head of Ray is reachable from this node: the next look at the job submits it again with ${why}`;
      }
      await submitToRay(http, folder, order, decided);
      const id = folder.idOf(decided);
      if (folder.isCancelled) await http.post(`/api/jobs/${id}/stop`);
      return `Submitted again as job ${id} with ${why}`;
    },
  });
}

/** The head that knows this job: the address of the person may mean another machine here. */
async function headOf(
  { at }: RayNodeParts,
  { addresses }: RayOrder,
  id: string,
): Promise<RayHttp | undefined> {
  for (const address of addresses) {
    const http = at(address);
    const known = await http.get(`/api/jobs/${id}`).catch(() => undefined);
    if (known !== undefined) return http;
  }
  return undefined;
}

function notOurs(path: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'not-in-ray',
    fact: `This command is for jobs of Ray that plimsoll submitted, and ${path} is not one that this node can read.`,
    next: 'Nodes need the same home folder and account as the machine that submits.',
  });
}

/**
 * When Ray gives a job up it kills the process group of the job's shell. Processes in sessions of their
 * own, such as the workers of torchrun, would go on beside the next start of the job. This waits until
 * the shell has ended: where the folder of the run is still there, nobody ended it, and all processes
 * that have it in their environment are killed.
 */
export function endWithShell(shell: number, home: string): void {
  const script = `while kill -s 0 ${shell}; do sleep 1; done
[ -d "$0" ] || exit 0
for round in 1 2 3; do
  for one in /proc/[0-9]*; do
    if tr '\\0' '\\n' < "$one/environ" | grep -qxF "${nodeRunVariable}=$0"; then kill -s KILL "\${one#/proc/}"; fi
  done
done
rm -rf "$0"`;
  // In a session of its own, and without the variable that it looks for.
  const watcher = spawn('sh', ['-c', script, home], {
    detached: true,
    stdio: 'ignore',
    cwd: '/',
    env: { PATH: process.env['PATH'] },
  });
  // Without it the job runs all the same.
  watcher.once('error', () => {});
  watcher.unref();
}
