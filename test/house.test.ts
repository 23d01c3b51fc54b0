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

const defining = projectFiles().filter(
  (path) =>
    /^(src|web\/src|web\/snapshot|python\/plimsoll(_trace)?)\/.*\.(ts|tsx|py)$/.test(path) &&
    !/\.test\.tsx?$/.test(path),
);

/** A figure or a rule, and the places that may write it down: one in each language. */
const rules: readonly (readonly [string, RegExp, readonly string[]])[] = [
  [
    'the load line',
    /load_?line\w* = 0?\.\d/i,
    ['python/plimsoll/memory/load_line.py', 'src/device/load-line.ts'],
  ],
  [
    'what an estimate needs for sure',
    /function (?:sureBytes|bytesToReserve)\b/,
    ['src/plan/fit/fit.ts'],
  ],
  ['the states of a job', /\bjobStates = /, ['src/jobs/types.ts']],
  [
    'the smaller microbatch after a failure',
    /^(?:export function smallerMicrobatch|def smaller)\b/m,
    ['python/plimsoll/recovery/rules/sizes.py', 'src/batches/sizes/smaller-microbatch.ts'],
  ],
  [
    'which Node runs the command',
    /["']runtime["'], ["']node["']/,
    ['python/plimsoll/asking/command.py'],
  ],
];

describe('one definition of each rule', () => {
  it.each(rules)('%s', (_, pattern, places) => {
    const found = defining.filter((path) => pattern.test(readFileSync(root + path, 'utf8')));
    expect(found.toSorted()).toEqual(places);
  });
});

/** Sentences for people. A program that looks into one breaks when its words change. */
const sentence = String.raw`(?:reason|why|fact|next)`;
const looksInto = [
  new RegExp(
    String.raw`\.${sentence}\??\.(?:match|matchAll|includes|startsWith|endsWith|search|replace|replaceAll|split|indexOf)\(`,
  ),
  new RegExp(String.raw`\.(?:test|exec)\((?:[\w?]+\.)*${sentence}\)`),
];

const withProse = projectFiles().filter(
  (path) =>
    /^(src|web\/src|web\/snapshot|bench|scripts)\/.*\.(ts|tsx|mjs)$/.test(path) &&
    !/\.test\.tsx?$/.test(path),
);

describe('a sentence for people', () => {
  it('is never parsed: codes and fields carry what programs need', () => {
    expect(withProse.length).toBeGreaterThan(500);
    const found = withProse.flatMap((path) =>
      readFileSync(root + path, 'utf8')
        .split('\n')
        .flatMap((line, index) =>
          looksInto.some((pattern) => pattern.test(line)) ? [`${path}:${index + 1}`] : [],
        ),
    );
    expect(found).toEqual([]);
  });

  it.each([
    ["if (job.reason.includes('memory')) {", true],
    ['/memory/i.test(job.reason)', true],
    ["error.fact.replace(/x/, '')", true],
    ['text(job.reason)', false],
    ["words.includes('a reason')", false],
  ])('%s: parsed %s', (line, isParsed) => {
    expect(looksInto.some((pattern) => pattern.test(line))).toBe(isParsed);
  });
});

/** Names that needed a dictionary, and what the field calls them. */
const names: readonly (readonly [RegExp, string])[] = [
  [/\b\w*[a-z]Way\b|\bWay(?:[A-Z]\w*)?\b/, 'method, configuration, direction'],
  [/\b\w*(?:Weighed|InTurn)\b/, 'options, staggered'],
  [/\bmost(?:[A-Z]\w*|_(?!precise|common)\w+)|\b_?MOST_\w+/, 'max...'],
  [
    /\b(?:const|let|var|function|def) #?_?(?:told|tell)\b|\b(?:class|interface|type) Told\b|[a-z]Told\b|\btold(?:[A-Z]|_)\w*/,
    'reported, announced, printed, sent',
  ],
  [/\bopenWays\b|\b(?:const|let|type|interface) (?:fall|Fall|way)\b/, 'input, method'],
  [/\bcarr(?:y|ies|ying|ied)[A-Z_]\w*/, 'pass, hold, contain'],
  [/\bmust[A-Z]\w*/, 'check..., expect..., require...'],
  [/\b(?:promisable|foreign|returning)(?:Bytes|_bytes)\b/, 'available, otherProcesses, releasing'],
  [/\bwho(?:m)?ever\b/i, 'the client, the reader, the caller'],
];

const withWords = projectFiles().filter(
  (path) =>
    /^(src|web|python|test|bench|docs|examples|deploy|README\.md|SECURITY\.md)/.test(path) &&
    /\.(ts|tsx|py|mjs|md|yml)$/.test(path) &&
    !path.startsWith('bench/results/') &&
    path !== 'test/house.test.ts',
);

function found(pattern: RegExp): readonly string[] {
  return withWords.flatMap((path) =>
    readFileSync(root + path, 'utf8')
      .split('\n')
      .flatMap((line, index) =>
        pattern.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [],
      ),
  );
}

describe('plain words', () => {
  it('are looked for in the whole project', () => {
    expect(withWords.length).toBeGreaterThan(1200);
  });

  it.each(names)('no name is %s: write %s', (pattern) => {
    expect(found(pattern)).toEqual([]);
  });
});
