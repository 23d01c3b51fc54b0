import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { projectFiles, root } from './support/project-files.js';

const families = /^src\/model\/families\//;
const formulas = /^src\/estimate\/formula\//;
const tables = /^src\/snapshot\/(tables|records)\//;

/** Pairs of places that may share lines, each with its reason. */
const mayRepeat: readonly (readonly [one: RegExp, other: RegExp, why: string])[] = [
  [families, families, 'data: what a family is, field by field'],
  [formulas, formulas, 'data: the operations of a family in their order, as its own code has them'],
  [tables, tables, 'the hot loops of the snapshot reader: each is written for its own columns'],
  [tables, /^src\/snapshot\/snapshot\.ts$/, 'data: the fields of a row'],
  [/plan\/fit\/plan-max-batch/, /plan\/fit\/plan-settings/, 'the same arguments of two functions'],
];

const testCode = /(\.(test|suite)|-for-tests)\.tsx?$/;
const files = projectFiles().filter(
  (path) => /^(src|web\/src|web\/snapshot)\/.*\.tsx?$/.test(path) && !testCode.test(path),
);
const sources = new Map(files.map((path) => [path, readFileSync(root + path, 'utf8')]));

describe('the sources', () => {
  it('say nothing twice, but where it is listed with a reason', () => {
    const found = repeatedLines(sources)
      .filter(
        ({ files: [one, other] }) =>
          !mayRepeat.some(([first, second]) => first.test(one) && second.test(other)),
      )
      .map(({ files: [one, other], at }) => `${one}:${at[0]} ~ ${other}:${at[1]}`);
    expect(found).toEqual([]);
  });

  it('need every reason that is listed', () => {
    const pairs = repeatedLines(sources).map(({ files: pair }) => pair);
    const idle = mayRepeat.filter(
      ([first, second]) => !pairs.some(([one, other]) => first.test(one) && second.test(other)),
    );
    expect(idle.map(([, , why]) => why)).toEqual([]);
  });
});

describe('the check for repetition', () => {
  const lines = (...names: string[]) => names.map((name) => `call(${name});`).join('\n');

  it('finds six lines that stand in two files, and where', () => {
    const found = repeatedLines(
      new Map([
        ['a.ts', lines('x', 'a', 'b', 'c', 'd', 'e', 'f')],
        ['b.ts', `// why\n${lines('a', 'b', 'c', 'd', 'e', 'f')}`],
      ]),
    );
    expect(found).toEqual([{ files: ['a.ts', 'b.ts'], at: [2, 2] }]);
  });

  it('does not count five lines, imports, comments or brackets', () => {
    const imports = `import {\n  a,\n  b,\n  c,\n  d,\n  e,\n  f,\n} from './x.js';\n`;
    const both = `${imports}${lines('a', 'b', 'c', 'd', 'e')}\n}\n}\n}\n/** a */\n`;
    expect(
      repeatedLines(
        new Map([
          ['a.ts', `${both}${lines('f')}`],
          ['b.ts', `${both}${lines('g')}`],
        ]),
      ),
    ).toEqual([]);
  });
});

/** So many lines in a row that stand in two places are one thing written twice. */
const runLength = 6;

interface Line {
  readonly file: string;
  readonly number: number;
  readonly text: string;
}

/**
 * Pairs of files that share a run of lines, with where it begins in each. Comments, imports and lists
 * of re-exports do not count; nor do lines of punctuation alone.
 *
 * @example
 * repeatedLines(sources)[0]; // { files: ['src/a.ts', 'src/b.ts'], at: [10, 42] }
 */
export function repeatedLines(sources: ReadonlyMap<string, string>): readonly {
  readonly files: readonly [string, string];
  readonly at: readonly [number, number];
}[] {
  const seen = new Map<string, Line>();
  const found = new Map<string, { files: [string, string]; at: [number, number] }>();
  for (const [file, text] of sources) {
    const lines = codeLines(file, text);
    for (let start = 0; start + runLength <= lines.length; start++) {
      const run = lines.slice(start, start + runLength);
      const key = run.map((line) => line.text).join('\n');
      const here = run[0];
      const before = seen.get(key);
      if (here === undefined) continue;
      if (before === undefined) seen.set(key, here);
      else if (before.file !== here.file || here.number - before.number >= runLength) {
        const pair = `${before.file} ${here.file}`;
        if (!found.has(pair)) {
          found.set(pair, {
            files: [before.file, here.file],
            at: [before.number, here.number],
          });
        }
      }
    }
  }
  return [...found.values()];
}

/** Nothing but its line breaks, so that numbers stay right. */
function blank(match: string): string {
  return match.replaceAll(/[^\n]/g, '');
}

function codeLines(file: string, text: string): readonly Line[] {
  const code = text
    .replaceAll(/\/\*.*?\*\//gs, blank)
    .replaceAll(/^(?:import|export) (?:type )?\{[^}]*\}(?: from)?[^\n]*/gm, blank)
    .replaceAll(/^import [^\n]*/gm, blank)
    .replaceAll(/^\s*\/\/[^\n]*/gm, blank);
  return code
    .split('\n')
    .map((line, index) => ({ file, number: index + 1, text: line.trim() }))
    .filter((line) => /\w/.test(line.text));
}
