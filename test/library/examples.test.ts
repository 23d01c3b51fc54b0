import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { entryFiles, exportedNames } from '../support/library-entries.js';
import { projectFiles, root } from '../support/project-files.js';

const entries = entryFiles();
const pages = projectFiles()
  .filter((path) => path.endsWith('.md'))
  .map((path) => ({ path, text: readFileSync(join(root, path), 'utf8') }));

/** What a page imports from the package. */
function imports(text: string): readonly { readonly entry: string; readonly names: string[] }[] {
  return [...text.matchAll(/^import (?:type )?\{([^}]*)\} from '(plimsoll[\w/-]*)'/gm)].map(
    ([, names = '', entry = '']) => ({
      entry,
      names: names
        .split(',')
        .map((name) => name.replace(/^\s*type\s/, '').trim())
        .filter((name) => name !== ''),
    }),
  );
}

/** The first example of a page, with what it prints. */
function firstExample(text: string): { readonly code: string; readonly prints: string } {
  const found = /^```ts\n(.*?)^```\n+```text\n(.*?)^```/ms.exec(text);
  return { code: found?.[1] ?? '', prints: found?.[2] ?? '' };
}

function pageOf(entry: string): string {
  return entry === 'plimsoll'
    ? 'docs/library.md'
    : `${entry.replace('plimsoll', 'docs/library')}.md`;
}

const examples = [...entries.keys()].map((entry) => {
  const text = pages.find(({ path }) => path === pageOf(entry))?.text ?? '';
  return [entry, firstExample(text)] as const;
});

describe('the entries of the library', () => {
  it('have a page each', () => {
    const shown = pages.map(({ path }) => path);
    for (const entry of entries.keys()) expect(shown).toContain(pageOf(entry));
  });

  it('have the names that the pages import', () => {
    const missing = pages.flatMap(({ path, text }) =>
      imports(text).flatMap(({ entry, names }) => {
        const file = entries.get(entry);
        const known = file === undefined ? [] : exportedNames(file);
        return names
          .filter((name) => !known.includes(name))
          .map((name) => `${path}: ${entry} ${name}`);
      }),
    );
    expect(missing).toEqual([]);
  });

  it('keep the core small', () => {
    expect(exportedNames('src/index.ts').length).toBeLessThan(60);
  });
});

describe('the first example of a page', { tags: 'rest' }, () => {
  // Below the checkout, so that packages are found.
  let folder = '';
  beforeAll(() => {
    mkdirSync(join(root, 'build'), { recursive: true });
    folder = mkdtempSync(join(root, 'build/examples-'));
    mkdirSync(join(folder, 'gpt2'));
    copyFileSync(join(root, 'bench/truth/configs/gpt2.json'), join(folder, 'gpt2/config.json'));
    copyFileSync(
      join(root, 'bench/truth/snapshots/oom.pickle.xz'),
      join(folder, 'snapshot.pickle.xz'),
    );
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('has the types that the library has', () => {
    const types = join(folder, 'types');
    mkdirSync(types);
    for (const [entry, { code }] of examples) {
      writeFileSync(join(types, `${entry.replaceAll('/', '-')}.ts`), code);
    }
    const paths = Object.fromEntries([...entries].map(([from, to]) => [from, [join(root, to)]]));
    writeFileSync(
      join(types, 'tsconfig.json'),
      JSON.stringify({
        extends: '../../../tsconfig.json',
        compilerOptions: { paths },
        include: ['*.ts'],
      }),
    );
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    const checked = spawnSync(process.execPath, [tsc, '-p', types], { encoding: 'utf8' });
    expect(checked.stdout).toBe('');
    expect(checked.status).toBe(0);
  });

  it.each(examples)(
    'of %s runs as it is, and prints what the page says',
    async (entry, example) => {
      expect(example.code).not.toBe('');
      const name = entry.replaceAll('/', '-');
      const source = join(folder, `${name}.ts`);
      const program = join(folder, `${name}.mjs`);
      writeFileSync(source, example.code);
      await build({
        entryPoints: [source],
        outfile: program,
        bundle: true,
        platform: 'node',
        format: 'esm',
        target: 'node20',
        packages: 'external',
        alias: Object.fromEntries(
          [...entries].toReversed().map(([from, to]) => [from, join(root, to)]),
        ),
      });
      const ran = spawnSync(process.execPath, [program], {
        cwd: dirname(program),
        encoding: 'utf8',
        env: { ...process.env, PLIMSOLL_HOME: join(folder, 'home') },
      });
      expect({ stdout: ran.stdout, status: ran.status, stderr: ran.stderr }).toEqual({
        stdout: example.prints,
        status: 0,
        stderr: '',
      });
    },
  );
});
