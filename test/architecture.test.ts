import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { architecturePage } from './support/architecture-page.js';
import { projectFiles, root } from './support/project-files.js';

describe('docs/architecture.md', () => {
  it('is what the code says', () => {
    const path = join(root, 'docs/architecture.md');
    if (process.env['UPDATE_ARCHITECTURE'] === '1') writeFileSync(path, architecturePage());
    expect(readFileSync(path, 'utf8')).toBe(architecturePage());
  });

  it('shows every folder of src/', () => {
    const page = architecturePage();
    const folders = projectFiles().flatMap((path) => /^src\/[\w-]+\//.exec(path)?.[0] ?? []);
    expect([...new Set(folders)].filter((folder) => !page.includes(`\`${folder}\``))).toEqual([]);
  });
});

describe('docs/extending.md', () => {
  const text = readFileSync(join(root, 'docs/extending.md'), 'utf8');
  const files = projectFiles();

  it('names only files and folders that are there', () => {
    const named = [
      ...text.matchAll(/`((?:src|web|python|test|docs|bench|schema)\/[\w./-]*)`/g),
    ].map(([, path = '']) => path);
    expect(named.length).toBeGreaterThan(20);
    const missing = named.filter((path) =>
      path.endsWith('/') ? !files.some((file) => file.startsWith(path)) : !files.includes(path),
    );
    expect(missing).toEqual([]);
  });

  it('names the suite that checks each extension', () => {
    const sections = text.split(/^## /m).slice(1);
    expect(sections.length).toBe(6);
    for (const section of sections) expect(section).toMatch(/^Checked by: `/m);
  });
});
