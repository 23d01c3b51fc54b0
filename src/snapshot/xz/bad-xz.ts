import { Failure } from '../../failure.js';

/** The archive is damaged, or made in a way that is not read. */
export function refuseXz(why: string): never {
  throw new Failure({
    kind: 'input',
    code: 'bad-archive',
    fact: `The xz data cannot be read: ${why}.`,
    next: 'Copy the file again, or unpack it with xz -d and name the unpacked file.',
  });
}
