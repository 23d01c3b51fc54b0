import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from './project-files.js';

/** Each import of the package that package.json offers, with its source: `plimsoll/run`. */
export function entryFiles(): ReadonlyMap<string, string> {
  const { exports }: { exports: Record<string, string | { default: string }> } = JSON.parse(
    readFileSync(join(root, 'package.json'), 'utf8'),
  );
  return new Map(
    Object.entries(exports).flatMap(([name, target]) => {
      if (typeof target === 'string') return [];
      const source = target.default.replace(/^\.\/dist\//, 'src/').replace(/\.js$/, '.ts');
      return [[name.replace(/^\./, 'plimsoll'), source] as const];
    }),
  );
}

/** All that a file of re-exports offers, types included. */
export function exportedNames(file: string): readonly string[] {
  const text = readFileSync(join(root, file), 'utf8');
  return [...text.matchAll(/^export (?:type )?\{([^}]*)\} from/gm)].flatMap(([, names = '']) =>
    names
      .split(',')
      .map((name) => name.replace(/^\s*type\s/, '').trim())
      .filter((name) => name !== ''),
  );
}
