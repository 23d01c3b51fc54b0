import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { access, constants, readdir, realpath, stat } from 'node:fs/promises';
import { delimiter, dirname, join, resolve } from 'node:path';
import { pythonProgram } from '../../../estimate/trace/python-trace.js';
import { MiB } from '../../../units/bytes.js';

/** A config is a page of text and is read whole; of weights the time of their change must do. */
const readBytes = MiB;

/**
 * The names of files and folders with what would be different if one of them had changed.
 *
 * @example
 * const before = await fileStates(['/models/gpt2/config.json']);
 */
export async function fileStates(paths: readonly string[]): Promise<readonly string[]> {
  const states: string[] = [];
  // One after another: a server has its descriptors for other things.
  for (const path of paths) states.push(`${path} ${await fileState(path)}`);
  return states;
}

/**
 * Clocks of file systems tick every few milliseconds and can be turned back, so what is small counts
 * by its content, too.
 */
async function fileState(path: string): Promise<string> {
  try {
    const found = await stat(path, { bigint: true });
    const { dev, ino, size, mtimeNs, ctimeNs } = found;
    const state = [dev, ino, size, mtimeNs, ctimeNs].join(' ');
    if (!found.isFile() || size > readBytes) return state;
    return `${state} ${await digestOf(path)}`;
  } catch {
    // The reader says why; here it is only another state.
    return 'unreadable';
  }
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256');
  // It may be growing.
  for await (const bytes of createReadStream(path, { end: readBytes })) hash.update(bytes);
  return hash.digest('hex');
}

const ofModels = /\.(json|safetensors|gguf)$/i;
const config = /(?<!\.index)\.json$/i;

/**
 * The files that an answer about a model may be read from: a config alone, or all that lie in the
 * folder of weights, as there the config, the index and the parts belong together.
 *
 * @example
 * await modelFiles('/models/gpt2'); // ['/models/gpt2/config.json', '/models/gpt2/model.safetensors']
 */
export async function modelFiles(path: string): Promise<readonly string[]> {
  try {
    const isFolder = (await stat(path)).isDirectory();
    if (!isFolder && config.test(path)) return [path];
    const folder = isFolder ? path : dirname(path);
    const names = (await readdir(folder)).filter((name) => ofModels.test(name)).toSorted();
    const files = names.map((name) => join(folder, name));
    return isFolder || files.includes(path) ? files : [path, ...files];
  } catch {
    // Nothing is there, or may be seen; the answer will say so.
    return [path];
  }
}

/** Sources and settings; what else a script reads is its own affair. */
const read = /\.(py|json|ya?ml|toml|cfg|ini|txt)$/i;
const skipped = /^(\.|__pycache__$|node_modules$|venv$)/;
/** A project; beyond that, looking at the files takes as long as a trace. */
const maxFiles = 500;
const deepest = 4;

/**
 * The files that a script may import or read from the folder it lies in. Undefined where there are too
 * many to look at.
 *
 * @example
 * await scriptFiles('/srv/job/train.py'); // ['/srv/job/train.py', '/srv/job/net.py']
 */
export async function scriptFiles(path: string): Promise<readonly string[] | undefined> {
  const found = new Set([path]);
  const open: { folder: string; depth: number }[] = [{ folder: dirname(path), depth: 0 }];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { folder, depth } = next;
    const entries = await readdir(folder, { withFileTypes: true }).catch(() => []);
    for (const entry of entries) {
      if (skipped.test(entry.name)) continue;
      const inside = join(folder, entry.name);
      if (entry.isDirectory() && depth < deepest) open.push({ folder: inside, depth: depth + 1 });
      else if (read.test(entry.name)) found.add(inside);
    }
    if (found.size + open.length > maxFiles) return undefined;
  }
  return [...found].toSorted();
}

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

/** Finds a program by its name as a shell does. */
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
