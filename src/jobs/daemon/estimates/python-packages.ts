import { access, constants, readdir, realpath } from 'node:fs/promises';
import { delimiter, dirname, join, resolve } from 'node:path';
import { pythonProgram } from '../../../estimate/trace/python-trace.js';

export interface PythonPlace {
  readonly python?: string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
}

/**
 * The program and the folders of packages of the Python that traces. A package that is installed,
 * removed or exchanged is a new name in one of those folders, and so changes its time.
 *
 * @example
 * await pythonPackages({ environment: { VIRTUAL_ENV: '/srv/venv' }, folder: '/' });
 * // ['/srv/venv/bin/python', '/srv/venv/lib/python3.11/site-packages']
 */
export async function pythonPackages(place: PythonPlace): Promise<readonly string[]> {
  const { environment, folder } = place;
  const program = await placeOf(pythonProgram(place.python, environment), place);
  const user = environment['HOME'] === undefined ? [] : [join(environment['HOME'], '.local')];
  // A virtual environment may let the packages of its parent in; Debian has some in /usr/local.
  const prefixes = [prefixOf(program), prefixOf(await followed(program)), ...user, '/usr/local'];
  const libraries = [...new Set(prefixes)].flatMap((prefix) => [
    join(prefix, 'lib'),
    join(prefix, 'lib64'),
  ]);
  const own = (environment['PYTHONPATH'] ?? '').split(delimiter).filter((path) => path !== '');
  return [
    program,
    ...(await Promise.all(libraries.map(packagesIn))).flat(),
    ...own.map((path) => resolve(folder, path)),
  ];
}

async function packagesIn(library: string): Promise<readonly string[]> {
  try {
    const versions = (await readdir(library)).filter((name) => name.startsWith('python3'));
    return versions
      .toSorted()
      .flatMap((name) =>
        ['site-packages', 'dist-packages'].map((packages) => join(library, name, packages)),
      );
  } catch {
    return [];
  }
}

/** Where a program lies that is named as for a shell. */
async function placeOf(program: string, { environment, folder }: PythonPlace): Promise<string> {
  if (program.includes('/')) return resolve(folder, program);
  for (const path of (environment['PATH'] ?? '').split(delimiter)) {
    const file = resolve(folder, path, program);
    try {
      await access(file, constants.X_OK);
      return file;
    } catch {
      // In the next one, then.
    }
  }
  return program;
}

async function followed(path: string): Promise<string> {
  return await realpath(path).catch(() => path);
}

function prefixOf(program: string): string {
  return dirname(dirname(program));
}
