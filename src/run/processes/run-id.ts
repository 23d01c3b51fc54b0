import { runIdVariable } from '../attempt-environment.js';

/** The run that an environment names. */
export function runIdIn(environment: Uint8Array): string | undefined {
  const bytes = Buffer.from(environment.buffer, environment.byteOffset, environment.byteLength);
  const name = `${runIdVariable}=`;
  for (let at = bytes.indexOf(name); at !== -1; at = bytes.indexOf(name, at + 1)) {
    if (at > 0 && bytes[at - 1] !== 0) continue;
    const end = bytes.indexOf(0, at);
    return bytes.toString('utf8', at + name.length, end === -1 ? bytes.length : end);
  }
  return undefined;
}
