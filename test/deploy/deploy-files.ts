import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../support/project-files.js';
import { parsePlainYaml, type Yaml } from './plain-yaml.js';

export const deployFolder = join(root, 'deploy');

export function deployText(name: string): string {
  return readFileSync(join(deployFolder, name), 'utf8');
}

export function deployYaml(name: string): Yaml {
  return parsePlainYaml(deployText(name));
}

/** What lies at a path of keys and indices; an error where it ends early. */
export function at(value: Yaml, ...path: readonly (string | number)[]): Yaml {
  return path.reduce<Yaml>((node, key) => {
    const next: unknown = Reflect.get(Object(node), key);
    if (!isYaml(next)) throw new Error(`there is no ${path.join('.')}`);
    return next;
  }, value);
}

function isYaml(value: unknown): value is Yaml {
  return typeof value === 'string' || (typeof value === 'object' && value !== null);
}

export function entriesOf(value: Yaml): readonly (readonly [string, Yaml])[] {
  return typeof value === 'string' ? [] : Object.entries(value);
}

export function listOf(value: Yaml): readonly Yaml[] {
  return entriesOf(value).map(([, item]) => item);
}

export function textsOf(value: Yaml): readonly string[] {
  return listOf(value).filter((item) => typeof item === 'string');
}
