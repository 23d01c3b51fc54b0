import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { describe, expect, it } from 'vitest';
import { findCircle, type ImportGraph, upwardImports } from './support/import-graph.js';
import { projectFiles, root } from './support/project-files.js';

/** From the ground up: a file may import from its own layer or from a lower one. */
const layers = [
  'plimsoll/failure.py',
  'plimsoll/arguments.py',
  'plimsoll/progress.py',
  'plimsoll/settings/',
  'plimsoll/asking/__init__.py',
  'plimsoll/asking/command.py',
  'plimsoll/migrating/code.py',
  'plimsoll/migrating/rules.py',
  'plimsoll/migrating/',
  'plimsoll/forecasting/',
  'plimsoll/memory/',
  'plimsoll/bridge/',
  'plimsoll/buffering/',
  'plimsoll/replay_buffer.py',
  'plimsoll/data_loading.py',
  'plimsoll/batching.py',
  'plimsoll/distributed/',
  'plimsoll/recovery/rules/',
  'plimsoll/recovery/restore.py',
  'plimsoll/recovery/parts.py',
  'plimsoll/recovery/steps/',
  'plimsoll/recovery/',
  'plimsoll/saving.py',
  'plimsoll/trainers/',
  'plimsoll/optimizing/',
  'plimsoll/loading/',
  'plimsoll/leaks/',
  'plimsoll/debugging/',
  'plimsoll/sessions/',
  'plimsoll/swapping.py',
  'plimsoll_trace/',
  'plimsoll/asking/',
  'plimsoll/ray/',
  'plimsoll/command.py',
  'plimsoll/__main__.py',
  'plimsoll/_auto/',
  'plimsoll/__init__.py',
].map((layer) => `python/${layer}`);

const files = projectFiles();
const sources = new Map(
  files
    .filter((path) => /^python\/plimsoll(_trace)?\//.test(path) && path.endsWith('.py'))
    .map((path) => [path, readFileSync(root + path, 'utf8')]),
);
const graph = pythonImportGraph(sources, 'python/', ['plimsoll', 'plimsoll_trace']);

function layerOf(file: string): number | undefined {
  const index = layers.findIndex((layer) => file.startsWith(layer));
  return index === -1 ? undefined : index;
}

describe('the Python packages', () => {
  it('is there to be checked, each file in a layer', () => {
    expect(sources.size).toBeGreaterThan(100);
    expect([...graph.values()].flat().length).toBeGreaterThan(200);
    expect([...sources.keys()].filter((path) => layerOf(path) === undefined)).toEqual([]);
  });

  it('imports only downwards', () => {
    expect(upwardImports(graph, layerOf)).toEqual([]);
  });

  it('imports only files that are there', () => {
    const missing = [...graph].flatMap(([from, targets]) =>
      targets.filter((to) => !sources.has(to)).map((to) => `${from} -> ${to}`),
    );
    expect(missing).toEqual([]);
  });

  it('has no circle of imports, those inside functions included', () => {
    expect(findCircle(graph)).toBeUndefined();
  });

  it('ships its types', () => {
    expect(files).toContain('python/plimsoll/py.typed');
    expect(readFileSync(`${root}python/pyproject.toml`, 'utf8')).toContain('py.typed');
  });
});

describe('the reader of Python imports', () => {
  it('sees every form of import, and none in texts and comments', () => {
    const text = [
      '"""',
      'from .no import a',
      '"""',
      'from . import a, b as c  # from .no import a',
      'from ..memory.gauge import (',
      '    x,',
      '    y as z,',
      ')',
      'def f():',
      '    import os, plimsoll.failure as failure',
      '    # import no',
    ].join('\n');
    expect(pythonImports(text)).toEqual([
      { dots: 1, module: '', names: ['a', 'b'] },
      { dots: 2, module: 'memory/gauge', names: ['x', 'y'] },
      { dots: 0, module: 'os', names: [] },
      { dots: 0, module: 'plimsoll/failure', names: [] },
    ]);
  });

  it('finds the file of a module and of a name in a package, and shows one that is missing', () => {
    const made = pythonImportGraph(
      new Map([
        ['python/p/__init__.py', ''],
        ['python/p/a.py', 'from .b import c\nfrom .b.c import name\nfrom . import gone'],
        ['python/p/b/__init__.py', ''],
        ['python/p/b/c.py', 'from ..a import x\nfrom ..missing import y\nimport os'],
      ]),
      'python/',
      ['p'],
    );
    expect(made.get('python/p/a.py')).toEqual(['python/p/b/c.py', 'python/p/__init__.py']);
    expect(made.get('python/p/b/c.py')).toEqual(['python/p/a.py', 'python/p/missing.py']);
    expect(findCircle(made)).toEqual(['python/p/a.py', 'python/p/b/c.py', 'python/p/a.py']);
  });
});

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
