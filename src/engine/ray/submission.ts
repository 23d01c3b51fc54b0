import { Failure } from '../../failure.js';
import { shellWords } from '../../units/words.js';
import { objectIn, textIn } from '../job-folder.js';
import { startedAgain } from '../node/run-attempt.js';
import { notRay, type RayHttp } from './http.js';
import type { RayAttempt, RayJobFolder, RayOrder } from './job-folder.js';

/** Returns the submission of one attempt for Ray's Jobs API. */
export function submissionOf(folder: RayJobFolder, order: RayOrder, attempt: RayAttempt): object {
  const { request, number, restart } = attempt;
  const { numCpus, resources, labels, metadata } = order.options;
  const id = folder.idOf(attempt);
  const all = { ...request.resources, ...resources };
  const selector = { ...request.labels, ...labels };
  const cpus = numCpus === 'default' ? request.numCpus : numCpus;
  return {
    submission_id: id,
    entrypoint: entrypointOf(folder, order, number, restart),
    ...(request.numGpus === 0 ? {} : { entrypoint_num_gpus: request.numGpus }),
    ...(cpus === 0 ? {} : { entrypoint_num_cpus: cpus }),
    ...(request.memoryBytes === 0 ? {} : { entrypoint_memory: request.memoryBytes }),
    ...(Object.keys(all).length === 0 ? {} : { entrypoint_resources: all }),
    ...(Object.keys(selector).length === 0 ? {} : { entrypoint_label_selector: selector }),
    metadata: {
      job_name: order.name,
      plimsoll_job: folder.id,
      plimsoll_attempt: String(number),
      plimsoll_asked: request.why,
      ...metadata,
    },
  };
}

function entrypointOf(
  folder: RayJobFolder,
  order: RayOrder,
  number: number,
  restart: number,
): string {
  const words = ['on-node', '--engine', 'ray', folder.path, String(number), String(restart)];
  const ended = folder.endedFile(`${folder.idOf({ number, restart })}.${restart}`);
  // When Ray stops a job it signals the shell as well, which must wait for the program to end.
  return `trap : TERM\n${startedAgain(shellWords([...order.plimsoll, ...words]), shellWords([ended]))}`;
}

/**
 * Submits an attempt that was written down before. Ray takes its name only once: of several
 * processes that submit it, one does, and after an answer that was never heard it can be sent again.
 */
export async function submitToRay(
  http: RayHttp,
  folder: RayJobFolder,
  order: RayOrder,
  attempt: RayAttempt,
): Promise<RayAttempt> {
  const { session } = await readVersion(http);
  try {
    await http.post('/api/jobs/', submissionOf(folder, order, attempt));
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    // Ray may have it: sent before, or taken before its answer was lost.
    const found = await http.get(`/api/jobs/${folder.idOf(attempt)}`).catch(() => undefined);
    if (found === undefined) throw error;
  }
  const submitted = { ...attempt, session };
  folder.writeAttempt('all', submitted);
  return submitted;
}

/** Which Ray answers. */
interface RayVersion {
  readonly version: string;
  /** Another one after each start of the head; empty where Ray does not tell. */
  readonly session: string;
}

/** Shares of a GPU for entrypoints came with 2.3; label selectors and error types are optional. */
const oldest: readonly [number, number] = [2, 3];

export async function readVersion(http: RayHttp): Promise<RayVersion> {
  const answer = objectIn(await http.get('/api/version'));
  const version = textIn(answer['ray_version']);
  const match = /^(\d{1,4})\.(\d{1,4})/.exec(version);
  if (match === null) throw notRay(http.address, 'it names no version of Ray');
  const [major, minor] = [Number(match[1]), Number(match[2])];
  if (major < oldest[0] || (major === oldest[0] && minor < oldest[1])) {
    throw new Failure({
      kind: 'missing',
      code: 'ray-too-old',
      fact: `The head at ${http.address} runs Ray ${version.slice(0, 40)}; shares of a GPU need ${oldest.join('.')} or later.`,
      next: 'Update Ray on the cluster.',
    });
  }
  return { version, session: textIn(answer['session_name']) };
}
