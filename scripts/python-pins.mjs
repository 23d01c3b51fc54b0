// What a Python must be and hold for the tests; no file and no process is touched here.
import { createHash } from 'node:crypto';

/** For these there are wheels of the pinned torch. */
const oldest = [3, 10];
const newest = [3, 14];

export const supported = `${oldest.join('.')} to ${newest.join('.')}`;

/** Whether the pinned torch runs on this Python, such as "3.11.7". */
export function isSupported(version) {
  const [major, minor] = version.split('.').map(Number);
  return major === oldest[0] && minor >= oldest[1] && minor <= newest[1];
}

/** The lines `name==version` of a requirements file, by name. */
export function parsePins(text) {
  return Object.fromEntries(
    text
      .split('\n')
      .map((line) => line.replace(/#.*/, '').trim())
      .filter((line) => line !== '')
      .map((line) => line.split('==')),
  );
}

/**
 * The pins that are not met, in words. A build for another CUDA ("2.11.0+cu128") meets its pin: it
 * is the same source.
 */
export function lacking(pins, installed) {
  return Object.entries(pins)
    .filter(([name, version]) => installed[name]?.replace(/\+.*/, '') !== version)
    .map(([name, version]) => `${name} ${version} (has ${installed[name] ?? 'none'})`);
}

/** Changes with the pins, the Python and the machine: what a .venv was made for. */
export function stampOf(requirements, pythonVersion, machine) {
  const minor = pythonVersion.split('.').slice(0, 2).join('.');
  return createHash('sha256').update(`${minor}\n${machine}\n${requirements}`).digest('hex');
}
