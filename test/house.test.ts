import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  findCircle,
  type ImportGraph,
  importGraph,
  specifiers,
  upwardImports,
} from './support/import-graph.js';
import { projectFiles, root } from './support/project-files.js';

/** From the ground up: a file may import from its own layer or from a lower one. */
const layers = [
  'src/failure.ts',
  'src/units/',
  'src/files/',
  'src/time/',
  'src/device/',
  'src/watch/',
  'src/model/',
  'src/estimate/',
  'src/plan/',
  'src/snapshot/',
  'src/batches/',
  'src/buffers/',
  'src/run/',
  'src/engine/',
  'src/jobs/',
  'src/fleet/',
  'src/config/',
  'src/report/',
  'src/server/',
  'src/entries/',
  'src/index.',
  'src/cli/',
];

/** Tests, conformance suites and the fakes they use. */
const testOnly = /(\.(test|suite)|-for-tests)\.ts$|\/(testing|fixtures|fakes)\//;

/** Written so that no pattern finds itself; each with an example it must find. */
const unwanted = [
  ['mark of unfinished work', /\b(?:[T]ODO|[F]IXME|[X]XX)\b/, ['TO', 'DO']],
  ['path of a machine', /(?<![\w.])\/(?:[h]ome|[r]oot|[w]ork|[U]sers)\/\w/, ['see /ho', 'me/ada']],
  ['package registry', /\/\/[\w.-]*[r]egistry|"[r]esolved":/, ['https://regi', 'stry.example.org']],
] as const;

const files = projectFiles();
const sources = new Map(
  files
    .filter((path) => path.startsWith('src/') && path.endsWith('.ts'))
    .map((path) => [path, readFileSync(root + path, 'utf8')]),
);
const product = new Map([...sources].filter(([path]) => !testOnly.test(path)));

function layerOf(file: string): number | undefined {
  const index = layers.findIndex((layer) => file.startsWith(layer));
  return index === -1 ? undefined : index;
}

function graph(edges: Record<string, string[]>): ImportGraph {
  return new Map(Object.entries(edges));
}

describe('the house', () => {
  it('is there to be checked', () => {
    expect(product.size).toBeGreaterThan(10);
    expect([...product.keys()].filter((path) => layerOf(path) === undefined)).toEqual([]);
  });

  it('imports only downwards; tests may also use what lies under test/', () => {
    const upward = upwardImports(importGraph(sources), layerOf);
    expect(upward.filter((line) => !/^src\/\S+\.(test|suite)\.ts -> test\//.test(line))).toEqual(
      [],
    );
  });

  it('imports only files that are there', () => {
    const missing = [...importGraph(sources)].flatMap(([from, targets]) =>
      targets.filter((to) => !files.includes(to)).map((to) => `${from} -> ${to}`),
    );
    expect(missing).toEqual([]);
  });

  it('has no circle of imports, tests included', () => {
    expect(findCircle(importGraph(sources))).toBeUndefined();
  });

  it('keeps test code out of the product', () => {
    const leaks = [...importGraph(product)].flatMap(([from, targets]) =>
      targets.filter((to) => testOnly.test(to)).map((to) => `${from} -> ${to}`),
    );
    expect(leaks).toEqual([]);
  });

  it('puts the service together in src/server, not in the command line', () => {
    const parts = /^src\/(server\/open-server|jobs\/daemon\/open-daemon|engine\/local\/\S+)\.ts$/;
    const built = [...importGraph(product)]
      .filter(([from]) => from.startsWith('src/cli/'))
      .flatMap(([from, targets]) =>
        targets.filter((to) => parts.test(to)).map((to) => `${from} -> ${to}`),
      );
    expect(built).toEqual([]);
  });

  it('names files of one kind alike: types.ts, x-for-tests.ts', () => {
    const others = [...sources.keys()].filter((path) => /\/contract\.ts$|\.fake\.ts$/.test(path));
    expect(others).toEqual([]);
  });

  it('has named exports only', () => {
    const defaults = [...sources].filter(([, text]) => /^export default\b/m.test(text));
    expect(defaults.map(([path]) => path)).toEqual([]);
  });

  it.each(unwanted)('holds no %s', (_, pattern) => {
    const found = files
      // Recorded data and pictures are not written by hand.
      .filter((path) => !/^bench\/(truth|results)\/|\.(png|webp|xz|gz|so|node)$/.test(path))
      .flatMap((path) =>
        readFileSync(root + path, 'utf8')
          .split('\n')
          .flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}`] : [])),
      );
    expect(found).toEqual([]);
  });
});

describe('the checks themselves', () => {
  it('finds a circle, however long, and says who is in it', () => {
    expect(findCircle(graph({ a: ['b'], b: ['c'], c: ['d', 'b'], d: [] }))).toEqual([
      'b',
      'c',
      'b',
    ]);
    expect(findCircle(graph({ a: ['a'] }))).toEqual(['a', 'a']);
  });

  it('does not take two ways to one file for a circle', () => {
    expect(findCircle(graph({ a: ['b', 'c'], b: ['d'], c: ['d'], d: [] }))).toBeUndefined();
  });

  it('sees every form of import, and none in comments', () => {
    const text = [
      "import type { A } from './a.js';",
      "export * from './b.js';",
      "const c = await import('./c.js');",
      "import './d.js';",
      "import {\n  E,\n} from './e.js';",
      "// import './no.js';",
      "/**\n * @example\n * import { n } from './no.js';\n */",
    ].join('\n');
    expect(specifiers(text)).toEqual(['./a.js', './b.js', './c.js', './d.js', './e.js']);
  });

  it('sees an import that goes up, and one from outside the house', () => {
    const found = upwardImports(
      importGraph(
        new Map([
          ['src/units/bytes.ts', "import { watch } from '../watch/watch.js';"],
          [
            'src/cli/main.ts',
            "import { a } from '../units/bytes.js'; import '../../elsewhere.js';",
          ],
        ]),
      ),
      layerOf,
    );
    expect(found).toEqual([
      'src/units/bytes.ts -> src/watch/watch.ts',
      'src/cli/main.ts -> elsewhere.ts',
    ]);
  });

  it.each(unwanted)('knows a %s when it sees one', (_, pattern, halves) => {
    expect(pattern.test(halves.join(''))).toBe(true);
  });
});
