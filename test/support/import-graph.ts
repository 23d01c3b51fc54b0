import { posix } from 'node:path';

/** For each file the files it imports, all as paths from the root with `/`. */
export type ImportGraph = ReadonlyMap<string, readonly string[]>;

/** Sources by path; what they import of each other is resolved, packages and JSON are left out. */
export function importGraph(sources: ReadonlyMap<string, string>): ImportGraph {
  return new Map(
    [...sources].map(([path, text]) => [
      path,
      specifiers(text)
        .filter((specifier) => /^\..*\.js$/.test(specifier))
        .map((specifier) => posix.join(posix.dirname(path), specifier).replace(/\.js$/, ''))
        .map((name) => (sources.has(`${name}.tsx`) ? `${name}.tsx` : `${name}.ts`)),
    ]),
  );
}

/** The source without imports and exports of types alone: what is left when it runs. */
export function withoutTypeImports(text: string): string {
  return text.replaceAll(/\b(?:import|export)\s+type\s[^;]*?;/g, '');
}

/** All files that these need, themselves included. */
export function reachable(graph: ImportGraph, from: Iterable<string>): Set<string> {
  const seen = new Set<string>();
  const open = [...from];
  for (let file = open.pop(); file !== undefined; file = open.pop()) {
    if (seen.has(file)) continue;
    seen.add(file);
    open.push(...(graph.get(file) ?? []));
  }
  return seen;
}

/** What a source imports, types and `import()` included; comments are not code. */
export function specifiers(text: string): string[] {
  const code = text.replaceAll(/\/\*.*?\*\/|^\s*\/\/.*$/gms, '');
  const clauses = /\bfrom\s*'([^']+)'|\bimport\s*\(?\s*'([^']+)'/g;
  return [...code.matchAll(clauses)].map((match) => match[1] ?? match[2] ?? '');
}

/** One circle, its first file again at the end; `undefined` when there is none. */
export function findCircle(graph: ImportGraph): string[] | undefined {
  const done = new Set<string>();
  const path: string[] = [];

  function visit(file: string): string[] | undefined {
    const seenAt = path.indexOf(file);
    if (seenAt !== -1) return [...path.slice(seenAt), file];
    if (done.has(file)) return undefined;
    path.push(file);
    for (const next of graph.get(file) ?? []) {
      const circle = visit(next);
      if (circle) return circle;
    }
    path.pop();
    done.add(file);
    return undefined;
  }

  for (const file of graph.keys()) {
    const circle = visit(file);
    if (circle) return circle;
  }
  return undefined;
}

/** Imports that go up: each as `from -> to`. Every file must belong to a layer; `undefined` fails. */
export function upwardImports(
  graph: ImportGraph,
  layerOf: (file: string) => number | undefined,
): string[] {
  return [...graph].flatMap(([from, files]) =>
    files
      .filter((to) => {
        const low = layerOf(to);
        const high = layerOf(from);
        return low === undefined || high === undefined || low > high;
      })
      .map((to) => `${from} -> ${to}`),
  );
}
