import { relative } from 'node:path';
import type { CodeBase, ReadFile } from '../../migrate/types.js';
import { cleanText } from './text-width.js';

/** The unified diff of all files, with paths as `patch -p0` and `git apply -p0` take them. */
export function migrationDiff(found: readonly ReadFile[], folder: string): string {
  return found
    .flatMap(({ path, diff }) => {
      if (diff === undefined) return [];
      const name = nameOf(path, folder);
      return [`--- ${name}\n+++ ${name}\n${diff}`];
    })
    .join('');
}

/** What a person should know beside the diff: what was changed, what was left, what was not read. */
export function migrationNotes(code: CodeBase, folder: string): string {
  const { files, found, notUnderstood, tooMany } = code;
  const all = found.flatMap(({ path, findings }) =>
    findings.map((finding) => ({ ...finding, place: `${nameOf(path, folder)}:${finding.line}` })),
  );
  const left = all.filter(({ changed }) => !changed);
  const changed = all.length - left.length;
  return [
    `${files} Python ${files === 1 ? 'file' : 'files'}: ${changed} ${changed === 1 ? 'place' : 'places'} can be changed, ${left.length} ${left.length === 1 ? 'is' : 'are'} for you to decide.`,
    ...left.map(({ place, rule, message }) => `  ${place}: ${rule}: ${cleanText(message)}`),
    ...(notUnderstood.length > 0 ? ['Left alone:'] : []),
    ...notUnderstood.map(({ path, why }) => `  ${nameOf(path, folder)}: ${cleanText(why)}`),
    ...(tooMany ? ['There are more files; name a smaller folder.'] : []),
  ].join('\n');
}

function nameOf(path: string, folder: string): string {
  const inside = relative(folder, path);
  return cleanText(inside.startsWith('..') ? path : inside);
}
