import { closeSync, openSync, readdirSync, readSync } from 'node:fs';
import { join } from 'node:path';
import {
  type ProjectFile,
  type Recognised,
  recogniseFramework,
} from '../../plan/snippets/recognise.js';

/** Imports stand at the beginning; a notebook of megabytes is not read to its end. */
const fileLimitBytes = 64 * 1024;
/** A folder with more programs than this is no project, but a heap. */
const maxFiles = 200;

const names =
  /^(requirements[\w.-]*\.txt|pyproject\.toml|setup\.(py|cfg)|environment\.ya?ml|[\w.-]+\.(py|sh))$/;
/** One level down, where programs usually lie. */
const folders = ['src', 'scripts', 'requirements'];

/** The framework of the project in a folder; undefined where none is seen. */
export function projectFramework(folder: string): Recognised | undefined {
  const files = [...filesIn(folder), ...folders.flatMap((one) => filesIn(folder, one))];
  return recogniseFramework(files.slice(0, maxFiles));
}

function filesIn(root: string, below = ''): ProjectFile[] {
  try {
    return readdirSync(join(root, below), { withFileTypes: true })
      .filter((entry) => entry.isFile() && names.test(entry.name))
      .slice(0, maxFiles)
      .map(({ name }) => ({ name: join(below, name), text: beginningOf(join(root, below, name)) }))
      .toSorted((one, other) => (one.name < other.name ? -1 : 1));
  } catch {
    // A folder that is not there, or may not be read, tells nothing.
    return [];
  }
}

function beginningOf(path: string): string {
  const fd = openSync(path, 'r');
  try {
    const buffer = Buffer.alloc(fileLimitBytes);
    return buffer.toString('utf8', 0, readSync(fd, buffer, 0, fileLimitBytes, 0));
  } finally {
    closeSync(fd);
  }
}
