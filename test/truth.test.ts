import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import {
  digestOf,
  fileOf,
  filesIn,
  keptFiles,
  tarEntries,
  tarOf,
  truthFolder,
  truthPlace,
  truthRows,
  truthSets,
  unpackSet,
  unpackXz,
} from '../bench/truth.mjs';
import { root } from './support/project-files.js';

const folder = mkdtempSync(join(tmpdir(), 'plimsoll-truth-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.each(truthSets())('the measured set $name', (set) => {
  const name = String(set.name);
  const unpacked = join(folder, name);
  const archive = readFileSync(`${truthPlace}${name}.tar.xz`);
  unpackSet(name, unpacked, archive);

  it('has the files that its line in sets.tsv tells of', () => {
    const tar = unpackXz(archive);
    expect([digestOf(tar), String(tar.length)]).toEqual([set.tar_sha256, set.tar_bytes]);
    expect(tarEntries(tar)).toHaveLength(Number(set.files));
  });

  it('has the file of each row, as it was measured', () => {
    const rows = truthRows(name);
    expect(rows.length).toBeGreaterThan(0);
    const wrong = rows
      .filter(({ file }) => file !== '-')
      .filter((row) => digestOf(readFileSync(fileOf(row, unpacked))).slice(0, 16) !== row.sha256);
    expect(wrong).toEqual([]);
  });

  it('says of each row what was measured, when and on which card', () => {
    for (const row of truthRows(name)) {
      expect(row).toMatchObject({
        allocated_bytes: expect.stringMatching(/^\d+$/),
        reserved_bytes: expect.stringMatching(/^\d+$/),
        measured: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
        on: expect.stringMatching(/^H200\b|^simulated allocator$/),
        blind_for: expect.stringMatching(/./),
      });
    }
  });

  it('is packed to the same tar again, from files with other times and modes', () => {
    const kept = new Set(keptFiles(name));
    const names = filesIn(unpacked).filter((file) => !kept.has(file));
    expect(digestOf(tarOf(unpacked, names))).toBe(set.tar_sha256);
  });

  it('is unpacked once for all that read it', () => {
    const first = truthFolder(name);
    expect(filesIn(first)).toEqual(expect.arrayContaining(filesIn(unpacked)));
    expect(truthFolder(name)).toBe(first);
  });
});

describe('a tar that is not ours', () => {
  mkdirSync(join(folder, 'small'));
  writeFileSync(join(folder, 'small', 'a.json'), '{}');
  const good = tarOf(join(folder, 'small'), ['a.json']);

  /** With other bytes in the head, and the right sum of it. */
  function changed(at: number, text: string): Buffer {
    const tar = Buffer.from(good);
    tar.write(text, at);
    tar.write('        ', 148);
    const sum = tar.subarray(0, 512).reduce((total, byte) => total + byte, 0);
    tar.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
    return tar;
  }

  it('is read when all is well', () => {
    expect(tarEntries(changed(0, 'b')).map(({ name }) => name)).toEqual(['b.json']);
  });

  it.each(['../a', '/a', 'a/../../b', '.git/a', 'a//b', 'a\\b'])(
    'is refused where a name leads elsewhere: %s',
    (name) => {
      expect(() => tarEntries(changed(0, `${name}\0`))).toThrow(/outside of the folder/);
    },
  );

  it('is refused where it holds a link', () => {
    expect(() => tarEntries(changed(156, '2'))).toThrow(/not a plain file/);
  });

  it('is refused where it is damaged, cut off or has no end', () => {
    const damaged = Buffer.from(good);
    damaged.write('b', 0);
    expect(() => tarEntries(damaged)).toThrow(/is damaged/);
    expect(() => tarEntries(changed(124, '00000100000'))).toThrow(/cut off/);
    expect(() => tarEntries(good.subarray(0, 1024))).toThrow(/without an end/);
  });

  it('is refused where it would fill a disk', () => {
    const archive = readFileSync(`${truthPlace}cases.tar.xz`);
    expect(() => unpackXz(archive, 2 ** 20)).toThrow(/more than 1048576 bytes/);
    const empty = changed(124, '00000000000').subarray(0, 512);
    const many = Array.from({ length: 5001 }, () => empty);
    expect(() => tarEntries(Buffer.concat(many))).toThrow(/more than 5000 files/);
  });

  it('is not made of a name that it would refuse', () => {
    expect(() => tarOf(join(folder, 'small'), ['../small/a.json'])).toThrow(/cannot be packed/);
  });
});

describe('npm run truth', () => {
  const run = (...words: string[]) => {
    const end = spawnSync(process.execPath, ['scripts/truth.mjs', ...words], {
      cwd: root,
      encoding: 'utf8',
    });
    return { status: end.status, text: end.stdout, error: end.stderr };
  };

  it('lists the sets, and the rows of one', () => {
    expect(run('list').text.match(/^\w+/gm)).toEqual(truthSets().map(({ name }) => name));
    expect(run('list', 'series', 'leak-1024-7').text.split('\n')).toHaveLength(3);
  });

  it('unpacks into a folder that is named, and never into one that is in use', () => {
    const to = join(folder, 'named');
    expect(run('unpack', 'series', '--to', to)).toMatchObject({ status: 0, text: `${to}\n` });
    expect(filesIn(to)).toEqual(filesIn(join(folder, 'series')));
    expect(run('unpack', 'series', '--to', to)).toMatchObject({
      status: 2,
      error: expect.stringMatching(/^folder-in-use: .* is not empty\. Name a folder/),
    });
  });

  it.each([
    [[], 'bad-usage'],
    [['unpack'], 'bad-usage'],
    [['unpack', 'series', '--into', 'x'], 'bad-usage'],
    [['unpack', '../configs'], 'unknown-set'],
    [['pack', 'series'], 'bad-usage'],
    [['pack', 'series', '--from', '/nowhere/at-all'], 'no-folder'],
  ])('says how it is called: %j', (words, code) => {
    const { status, error } = run(...words);
    expect([status, error.split(':')[0]]).toEqual([2, code]);
    expect(error.trim().split('\n')).toHaveLength(1);
  });

  it('packs nothing where the file of a row is missing', () => {
    const before = readFileSync(`${truthPlace}series.tsv`, 'utf8');
    expect(run('pack', 'series', '--from', join(folder, 'small'))).toMatchObject({
      status: 3,
      error: expect.stringMatching(/^no-file: accelerating-0\.json/),
    });
    expect(readFileSync(`${truthPlace}series.tsv`, 'utf8')).toBe(before);
  });

  it('shows its help', () => {
    expect(run('--help')).toMatchObject({
      status: 0,
      text: expect.stringContaining('unpack NAME'),
    });
  });
});
