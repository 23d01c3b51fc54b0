import { execFileSync, spawnSync } from 'node:child_process';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { projectFiles, root } from '../support/project-files.js';

describe('the packed package', () => {
  let folder = '';
  beforeAll(() => {
    // `npm test` builds before it runs tests.
    if (!existsSync(join(root, 'dist/index.js'))) throw new Error('Run "npm run build" first.');
    folder = mkdtempSync(join(tmpdir(), 'plimsoll-packed-'));
    execFileSync('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder], {
      cwd: root,
      stdio: ['ignore', 'ignore', 'ignore'],
    });
    const [tarball = ''] = readdirSync(folder);
    const modules = join(folder, 'node_modules');
    mkdirSync(modules);
    execFileSync('tar', ['-xf', join(folder, tarball), '-C', modules]);
    // Its dependencies, as npm would install them.
    const own = join(root, 'node_modules');
    for (const name of readdirSync(own).filter((one) => !one.startsWith('.'))) {
      if (name !== 'plimsoll') symlinkSync(join(own, name), join(modules, name));
    }
    symlinkSync(join(modules, 'package'), join(modules, 'plimsoll'));
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it('offers every entry, with every name of it', () => {
    const program = join(folder, 'use.mjs');
    const entries = [...entryFiles()];
    writeFileSync(
      program,
      `const found = {};
for (const entry of ${JSON.stringify(entries.map(([entry]) => entry))}) {
  found[entry] = Object.keys(await import(entry));
}
process.stdout.write(JSON.stringify(found));`,
    );
    const ran = spawnSync(process.execPath, [program], { cwd: folder, encoding: 'utf8' });
    expect(ran.stderr).toBe('');
    const found: Record<string, string[]> = JSON.parse(ran.stdout);
    for (const [entry, file] of entries) {
      expect(found[entry]).not.toEqual([]);
      // What is there but not in the list would be a leftover; types are in the list alone.
      const listed = exportedNames(file);
      expect(found[entry]?.filter((name) => !listed.includes(name))).toEqual([]);
    }
  });

  it('offers the types of every entry', () => {
    const uses = [...entryFiles()].map(([entry, file], index) => {
      const names = exportedNames(file).map((name) => `${name} as ${name}${index}`);
      return `export type { ${names.join(', ')} } from '${entry}';`;
    });
    writeFileSync(join(folder, 'use.ts'), uses.join('\n'));
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}');
    writeFileSync(
      join(folder, 'tsconfig.json'),
      JSON.stringify({
        compilerOptions: {
          target: 'es2023',
          module: 'nodenext',
          strict: true,
          noEmit: true,
          skipLibCheck: true,
          types: ['node'],
        },
        include: ['use.ts'],
      }),
    );
    const tsc = join(root, 'node_modules/typescript/bin/tsc');
    const checked = spawnSync(process.execPath, [tsc, '-p', folder], { encoding: 'utf8' });
    expect(checked.stdout).toBe('');
  });
});

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

/** Each import of the package that package.json offers, with its source: `plimsoll/run`. */
export function entryFiles(): ReadonlyMap<string, string> {
  const { exports }: { exports: Record<string, string | { default: string }> } = JSON.parse(
    readFileSync(join(root, 'package.json'), 'utf8'),
  );
  return new Map(
    Object.entries(exports).flatMap(([name, target]) => {
      if (typeof target === 'string') return [];
      const source = target.default.replace(/^\.\/dist\//, 'src/').replace(/\.js$/, '.ts');
      return [[name.replace(/^\./, 'plimsoll'), source] as const];
    }),
  );
}

/** All that a file of re-exports offers, types included. */
export function exportedNames(file: string): readonly string[] {
  const text = readFileSync(join(root, file), 'utf8');
  return [...text.matchAll(/^export (?:type )?\{([^}]*)\} from/gm)].flatMap(([, names = '']) =>
    names
      .split(',')
      .map((name) => name.replace(/^\s*type\s/, '').trim())
      .filter((name) => name !== ''),
  );
}
