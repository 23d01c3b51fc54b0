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
