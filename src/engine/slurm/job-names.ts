import { join } from 'node:path';
import { makeFolder } from '../../files/make-folder.js';
import { readOwnDocument } from '../../files/own-file.js';
import { KiB } from '../../units/bytes.js';
import { writeOnce } from '../whole-files.js';

/** A key and nothing else. */
const maxBytes = 4 * KiB;

/**
 * What a person calls a job: Slurm's number of it. A controller that lost its last seconds, or
 * whose state was removed, uses numbers a second time; the second job of a number has `-2` after it.
 *
 * @example
 * claimName(home, '17', key); // '17'
 * claimName(home, '17', otherKey); // '17-2'
 */
export function claimName(home: string, slurmId: string, key: string): string {
  const folder = join(home, 'slurm', 'names');
  makeFolder(folder, 0o700);
  for (let copy = 1; ; copy++) {
    const name = copy === 1 ? slurmId : `${slurmId}-${copy}`;
    if (writeOnce(join(folder, name), { schema: 1, key })) return name;
  }
}

/** The key of the job that has this name; undefined where none has it. */
export function keyOfName(home: string, name: string): string | undefined {
  if (!/^\d{1,12}(-\d{1,6})?$/.test(name)) return undefined;
  const document = readOwnDocument(join(home, 'slurm', 'names', name), { schema: 1, maxBytes });
  return typeof document?.['key'] === 'string' ? document['key'] : undefined;
}
