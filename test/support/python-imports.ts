import { posix } from 'node:path';
import type { ImportGraph } from './import-graph.js';

/**
 * Finds the imports among the files of some Python packages, those inside functions included.
 * `folder` is where the packages lie: 'python/' for python/plimsoll. An import that names no file
 * of ours stays as the path that it would have, so that it is seen.
 */
export function pythonImportGraph(
  sources: ReadonlyMap<string, string>,
  folder: string,
  packageNames: readonly string[],
): ImportGraph {
  const known = (module: string) =>
    [`${folder}${module}.py`, `${folder}${module}/__init__.py`].find((path) => sources.has(path));

  function resolved(module: string, name: string | undefined): string {
    const asModule = name === undefined ? undefined : known(`${module}/${name}`);
    return asModule ?? known(module) ?? `${folder}${module}.py`;
  }

  return new Map(
    [...sources].map(([path, text]) => {
      const targets = pythonImports(text).flatMap(({ dots, module, names }) => {
        const from = posix.dirname(path).slice(folder.length);
        const up = posix.join(from, ...Array.from({ length: dots - 1 }, () => '..'));
        const whole = dots === 0 ? module : posix.join(up, module);
        if (!packageNames.includes(whole.split('/')[0] ?? '')) return [];
        return names.length === 0
          ? [resolved(whole, undefined)]
          : names.map((name) => resolved(whole, name));
      });
      return [path, [...new Set(targets)].filter((target) => target !== path)];
    }),
  );
}

interface PythonImport {
  /** How many dots it begins with; 0 for a name from the top. */
  dots: number;
  /** With `/` for dots. */
  module: string;
  names: string[];
}

/** Import statements of a source; what stands in strings that begin a line is not code. */
export function pythonImports(text: string): PythonImport[] {
  const code = text
    .replaceAll(/"""[\s\S]*?"""/g, '""')
    .replaceAll(/#.*$/gm, '')
    .replaceAll(/\\\n/g, ' ');
  const found: PythonImport[] = [];
  const from = /^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(?:\(([^)]*)\)|(.+))$/gm;
  for (const [, dots = '', module = '', many, few] of code.matchAll(from)) {
    const names = (many ?? few ?? '').split(',').map((name) => name.trim().split(/\s+/)[0] ?? '');
    found.push({
      dots: dots.length,
      module: module.replaceAll('.', '/'),
      names: names.filter((name) => name !== ''),
    });
  }
  for (const [, list = ''] of code.matchAll(/^[ \t]*import[ \t]+([\w., \t]+)$/gm)) {
    for (const item of list.split(',')) {
      const module = item.trim().split(/\s+/)[0] ?? '';
      found.push({ dots: 0, module: module.replaceAll('.', '/'), names: [] });
    }
  }
  return found;
}
