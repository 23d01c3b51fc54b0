// Measured sets in bench/truth: an archive each (NAME.tar.xz) and a table of what was measured (NAME.tsv).
// `sets.tsv` names them, with the digest of each tar. `scripts/truth.mjs` lists, unpacks and packs them.
import { createHash } from 'node:crypto';
import {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { XzReader } from '../dist/snapshot/xz/xz-reader.js';

export const truthPlace = fileURLToPath(new URL('truth/', import.meta.url));
const root = fileURLToPath(new URL('..', import.meta.url));
const unpackedPlace = join(root, 'build', 'truth');

/** The largest set has 10 MiB, and the largest file of one 1.5 MiB: an archive cannot fill a disk. */
const maxBytes = 64 * 2 ** 20;
const maxFiles = 5000;
const block = 512;
/** Below the folder that it is unpacked to: no `..`, no empty part, no absolute path. */
const safeName = /^(?!\.)[\w.+-]+(\/(?!\.)[\w.+-]+)*$/;

/** A table with a head: an object of texts a line. */
export function readTable(path) {
  const [head, ...lines] = readFileSync(path, 'utf8').trimEnd().split('\n');
  const names = head.split('\t');
  return lines.map((line) => {
    const values = line.split('\t');
    return Object.fromEntries(names.map((name, at) => [name, values[at] ?? '']));
  });
}

export function tableText(rows) {
  const names = Object.keys(rows[0]);
  const lines = [names, ...rows.map((row) => names.map((name) => row[name]))];
  return `${lines.map((values) => values.join('\t')).join('\n')}\n`;
}

export function truthSets() {
  return readTable(`${truthPlace}sets.tsv`);
}

export function truthRows(name) {
  return readTable(`${truthPlace}${name}.tsv`);
}

/**
 * The folder of a set, unpacked at the first call. Its name is a digest of all that is in it, so that a changed
 * archive is unpacked again. bench/gpu/truth.py makes the same folder.
 */
export function truthFolder(name) {
  const archive = readFileSync(`${truthPlace}${name}.tar.xz`);
  const hash = createHash('sha256').update(archive);
  for (const file of keptFiles(name)) {
    hash.update(`${file}\0`).update(readFileSync(join(truthPlace, name, file)));
  }
  const place = join(unpackedPlace, name, hash.digest('hex').slice(0, 16));
  if (!existsSync(place)) {
    const part = `${place}.${process.pid}.part`;
    rmSync(part, { recursive: true, force: true });
    unpackSet(name, part, archive);
    try {
      renameSync(part, place);
    } catch (error) {
      // Another process was faster.
      rmSync(part, { recursive: true, force: true });
      if (!existsSync(place)) throw error;
    }
  }
  return `${place}/`;
}

/** Writes all files of a set into a folder: those of its archive, and those that lie in the tree. */
export function unpackSet(name, folder, archive = readFileSync(`${truthPlace}${name}.tar.xz`)) {
  for (const { name: file, bytes } of tarEntries(unpackXz(archive))) {
    const path = join(folder, file);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, bytes);
  }
  for (const file of keptFiles(name)) cpSync(join(truthPlace, name, file), join(folder, file));
}

/** The files of a set that lie in the tree, for readers; its archive does not hold them. */
export function keptFiles(name) {
  const folder = join(truthPlace, name);
  return existsSync(folder) ? filesIn(folder) : [];
}

/** Paths of all files below a folder, in the order of an archive. */
export function filesIn(folder) {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.parentPath.includes('__pycache__'))
    .map((entry) => join(entry.parentPath, entry.name).slice(join(folder, '/').length))
    .toSorted((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

export function unpackXz(packed, limit = maxBytes) {
  const parts = [];
  let length = 0;
  const reader = new XzReader((bytes) => {
    length += bytes.length;
    if (length > limit) throw new Error(`it unpacks to more than ${limit} bytes`);
    parts.push(bytes.slice());
    return true;
  });
  reader.push(packed);
  reader.end();
  return Buffer.concat(parts);
}

/**
 * A tar of the named files of a folder. The same files make the same bytes on every machine: names in order, no
 * times, no owners, one mode.
 */
export function tarOf(folder, names) {
  const parts = names.flatMap((name) => {
    if (!safeName.test(name) || Buffer.byteLength(name) > 100) {
      throw new Error(`${name} cannot be packed: a name has at most 100 of A-Z a-z 0-9 _ . + - /`);
    }
    const bytes = readFileSync(join(folder, name));
    return [tarHead(name, bytes.length), bytes, Buffer.alloc(-bytes.length & (block - 1))];
  });
  return Buffer.concat([...parts, Buffer.alloc(2 * block)]);
}

function tarHead(name, size) {
  const head = Buffer.alloc(block);
  head.write(name, 0);
  head.write('0000644\0' + '0000000\0'.repeat(2), 100);
  head.write(`${size.toString(8).padStart(11, '0')}\0${'0'.repeat(11)}\0`, 124);
  head.write(`        0`, 148);
  head.write('ustar\x0000', 257);
  head.write(`${sumOf(head).toString(8).padStart(6, '0')}\0 `, 148);
  return head;
}

function sumOf(head) {
  return head.reduce((sum, byte) => sum + byte, 0);
}

/** The files of a tar that `tarOf` made; throws where it holds anything else. */
export function tarEntries(tar) {
  const entries = [];
  for (let at = 0; tar.length - at >= block; ) {
    const head = Buffer.from(tar.subarray(at, at + block));
    if (head.every((byte) => byte === 0)) return entries;
    const text = (from, length) => head.toString('utf8', from, from + length).replace(/\0.*$/s, '');
    const name = text(0, 100);
    const size = Number.parseInt(text(124, 12), 8);
    const sum = Number.parseInt(text(148, 8), 8);
    head.fill(' ', 148, 156);
    if (sum !== sumOf(head)) throw new Error(`the head at byte ${at} of the tar is damaged`);
    if (head[156] !== 0x30) throw new Error(`${name} is not a plain file`);
    if (!safeName.test(name)) throw new Error(`${name} would lie outside of the folder`);
    const bytes = tar.subarray(at + block, at + block + size);
    if (!(size >= 0) || bytes.length !== size) throw new Error(`${name} is cut off`);
    entries.push({ name, bytes });
    if (entries.length > maxFiles) throw new Error(`it holds more than ${maxFiles} files`);
    at += block + Math.ceil(size / block) * block;
  }
  throw new Error('it ends without an end');
}

/** The file of a row, in the unpacked set or, where it begins with `bench/`, in this checkout. */
export function fileOf({ file }, folder) {
  return file.startsWith('bench/') ? join(root, file) : join(folder, file);
}

export function digestOf(bytes) {
  return createHash('sha256').update(bytes).digest('hex');
}
