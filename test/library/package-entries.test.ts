import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { entryFiles, exportedNames } from '../support/library-entries.js';
import { root } from '../support/project-files.js';

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
