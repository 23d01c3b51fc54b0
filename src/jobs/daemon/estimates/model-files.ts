import { readdir, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';

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
