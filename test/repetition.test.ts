import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { projectFiles, root } from './support/project-files.js';
import { repeatedLines } from './support/repeated-lines.js';

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
