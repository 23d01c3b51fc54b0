import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { findCircle, upwardImports } from './support/import-graph.js';
import { projectFiles, root } from './support/project-files.js';
import { pythonImportGraph, pythonImports } from './support/python-imports.js';

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
