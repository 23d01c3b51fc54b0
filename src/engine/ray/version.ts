import { Failure } from '../../failure.js';
import { objectIn, textIn } from '../json-values.js';
import { notRay, type RayHttp } from './http.js';

/** Which Ray answers. */
export interface RayVersion {
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
