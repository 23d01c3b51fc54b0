import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  findCircle,
  importGraph,
  reachable,
  specifiers,
  upwardImports,
  withoutTypeImports,
} from './support/import-graph.js';
import { projectFiles, root } from './support/project-files.js';

/**
 * The dashboard, the page of a snapshot and the calculator, from the ground up: a file may import from its
 * own layer or from a lower one, and no page from another; the calculator takes the parts of the dashboard.
 */
const pages = {
  'web/src/': ['api/', 'charts/', 'state/', 'parts/', 'views/', 'main.tsx'],
  'web/snapshot/': ['data/', 'answer/', 'messages.ts', 'worker.ts', 'page/', 'page.ts'],
  'web/calculator/': [
    ...(['data.d.ts', 'question.ts', 'over-gpus.ts', 'tables.ts', 'answer.ts'] as const),
    ...(['worker.ts', 'page.tsx', 'main.tsx'] as const),
  ],
} as const;
/** The calculator brings the catalogue and its tables along. */
const isData = (path: string) => /\.jsonl?$/.test(path) && projectFiles().includes(path);
const testOnly = /\.test\.tsx?$|-for-tests\.ts$/;

const sources = new Map(
  projectFiles()
    .filter(
      (path) =>
        /^(web\/(src|snapshot|calculator)|src)\/.*\.tsx?$/.test(path) && !testOnly.test(path),
    )
    .map((path) => [path, readFileSync(root + path, 'utf8')]),
);
/** What a page needs when it runs: types are gone by then. */
const running = new Map([...sources].map(([path, text]) => [path, withoutTypeImports(text)]));

describe.each([
  { folder: 'web/src/', files: 50, imports: 200 },
  { folder: 'web/snapshot/', files: 20, imports: 40 },
  { folder: 'web/calculator/', files: 7, imports: 30 },
] as const)('the page in $folder', ({ folder, files, imports }) => {
  const page = new Map([...sources].filter(([path]) => path.startsWith(folder)));

  function layerOf(file: string): number | undefined {
    // What it may take of src/ is checked below.
    if (file.startsWith('src/')) return -1;
    if (folder === 'web/calculator/' && file.startsWith('web/src/')) return -1;
    const index = pages[folder].findIndex((layer) => file.startsWith(folder + layer));
    return index === -1 ? undefined : index;
  }

  it('is there to be checked, each file in a layer', () => {
    expect(page.size).toBeGreaterThan(files);
    expect([...page.keys()].filter((path) => layerOf(path) === undefined)).toEqual([]);
  });

  it('imports only downwards, and only files that are there', () => {
    const graph = importGraph(sources);
    const ofPage = new Map([...graph].filter(([from]) => page.has(from)));
    expect(upwardImports(ofPage, layerOf)).toEqual([]);
    const targets = [...ofPage.values()].flat();
    expect(targets.length).toBeGreaterThan(imports);
    expect(targets.filter((to) => !sources.has(to) && !isData(to))).toEqual([]);
  });

  it('has no circle of imports', () => {
    expect(findCircle(importGraph(page))).toBeUndefined();
  });

  it('takes of src/ types, and pure files: none that needs Node or a package', () => {
    const needed = [...reachable(importGraph(running), page.keys())].filter((path) =>
      path.startsWith('src/'),
    );
    expect(needed).toContain('src/units/bytes.ts');
    const impure = needed.flatMap((path) =>
      specifiers(running.get(path) ?? '')
        .filter((specifier) => !specifier.startsWith('.'))
        .map((specifier) => `${path} -> ${specifier}`),
    );
    expect(impure).toEqual([]);
  });

  it('is imported by nothing in src/', () => {
    const found = [...importGraph(sources)].flatMap(([from, targets]) =>
      from.startsWith('src/') ? targets.filter((to) => to.startsWith(folder)) : [],
    );
    expect(found).toEqual([]);
  });
});

describe('the checks of the page', () => {
  it('drop imports of types alone, and keep the rest', () => {
    const text = [
      "import type { A } from './a.js';",
      "export type { B } from './b.js';",
      "import { type C, d } from './c.js';",
      'export type E = { f: number };',
      "import { g } from './g.js';",
    ].join('\n');
    expect(specifiers(withoutTypeImports(text))).toEqual(['./c.js', './g.js']);
  });

  it('follow imports through every file', () => {
    const graph = new Map([
      ['a', ['b']],
      ['b', ['c', 'a']],
      ['c', []],
      ['d', ['c']],
    ]);
    expect([...reachable(graph, ['a'])].toSorted()).toEqual(['a', 'b', 'c']);
  });
});
