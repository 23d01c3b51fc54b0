import { createHash } from 'node:crypto';
import { existsSync, lstatSync, readdirSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { Failure } from '../failure.js';
import { makeFolder } from './folders.js';
import { openOutputFile } from './output-file.js';
import { parseObject, readOwnDocument } from './own-file.js';

/** A file that is to be written as a whole. */
export interface FileChange {
  /** Absolute. */
  readonly path: string;
  readonly after: string;
  /** Of its bytes when it was read; a file that changed since is not written. Absent for any state. */
  readonly sha256?: string | undefined;
}

interface KeptFile {
  readonly path: string;
  /** The original, in the folder of the change; null where there was no file. */
  readonly kept: string | null;
  readonly after: string;
}

export interface UndoneChange {
  readonly restored: readonly string[];
  /** Changed again since, so they were left alone. */
  readonly changedSince: readonly string[];
}

const manifest = 'change.json';
const schema = 1;
/** A line of some hundred bytes for each of 50,000 files. */
const largestManifest = 64 * 1024 * 1024;

/**
 * Writes files, each as a whole. The originals are kept in `folder` first, so that `undoLastChange`
 * finds them whatever happens in between. A file that changed since it was read is an error before
 * anything is written, and so is a symbolic link: the person named a folder, and not what links in it
 * point to.
 */
export function changeFiles(folder: string, files: readonly FileChange[], now: Date): string {
  for (const { path } of files) if (isLink(path)) throw symbolicLink(path);
  const originals = files.map(({ path, sha256 }) => {
    const bytes = existsSync(path) ? readFileSync(path) : undefined;
    if (sha256 !== undefined && (bytes === undefined || hashOf(bytes) !== sha256)) {
      throw changedMeanwhile(path);
    }
    return bytes?.toString('utf8');
  });
  const targets = files.map(({ path }) => openOutputFile(path, '/'));
  const own = join(folder, now.toISOString().replaceAll(/[:.]/g, '-'));
  makeFolder(own, 0o700);
  const kept: KeptFile[] = files.map(({ path, after }, index) => {
    const original = originals[index];
    const name = original === undefined ? null : `${index + 1}.original`;
    if (name !== null) openOutputFile(join(own, name), '/').write(original ?? '');
    return { path, kept: name, after: hashOf(after) };
  });
  openOutputFile(join(own, manifest), '/').write(JSON.stringify({ schema, files: kept }));
  for (const [index, target] of targets.entries()) target.write(files[index]?.after ?? '');
  return own;
}

/** Puts the originals of the last change back, where nobody changed the file since. */
export function undoLastChange(folder: string): UndoneChange {
  const own = lastChange(folder);
  const document = readOwnDocument(join(own, manifest), { schema, maxBytes: largestManifest });
  const files = filesOf(document?.['files']);
  if (files === undefined) throw nothingToUndo(`${own} is damaged`);
  const restored = files.filter(isSame);
  const changedSince = files.filter((file) => !restored.includes(file));
  for (const { path, kept } of restored) {
    if (kept === null) rmSync(path);
    else openOutputFile(path, '/').write(readFileSync(join(own, kept), 'utf8'));
  }
  renameSync(own, `${own}.undone`);
  return {
    restored: restored.map(({ path }) => path),
    changedSince: changedSince.map(({ path }) => path),
  };
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

function isSame({ path, after }: KeptFile): boolean {
  return !isLink(path) && existsSync(path) && hashOf(readFileSync(path)) === after;
}

function lastChange(folder: string): string {
  const names = existsSync(folder) ? readdirSync(folder) : [];
  const last = names
    .filter((name) => !name.endsWith('.undone'))
    .toSorted()
    .at(-1);
  if (last === undefined) throw nothingToUndo('Nothing was applied');
  return join(folder, last);
}

function filesOf(value: unknown): readonly KeptFile[] | undefined {
  if (!Array.isArray(value)) return undefined;
  const files = value.flatMap((entry: unknown): KeptFile[] => {
    const { path, kept, after } = parseObject(JSON.stringify(entry) ?? '') ?? {};
    if (typeof path !== 'string' || !isAbsolute(path) || typeof after !== 'string') return [];
    if (kept === null) return [{ path, kept, after }];
    const named = typeof kept === 'string' && /^\d+\.original$/.test(kept);
    return named ? [{ path, kept, after }] : [];
  });
  return files.length === value.length ? files : undefined;
}

function hashOf(data: string | Buffer): string {
  return createHash('sha256').update(data).digest('hex');
}

function changedMeanwhile(path: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'file-changed',
    fact: `${path} changed while it was read; nothing was written.`,
    next: 'Run it again.',
  });
}

function symbolicLink(path: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'symbolic-link',
    fact: `${path} is a symbolic link; nothing was written.`,
    next: 'Name the file that it points to, work in its folder, or remove the link.',
  });
}

function nothingToUndo(why: string): Failure {
  return new Failure({
    kind: 'input',
    code: 'nothing-to-undo',
    fact: `${why}, so there is nothing to put back.`,
    next: 'Run it with --apply first.',
  });
}
