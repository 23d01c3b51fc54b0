import { execFileSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('../..', import.meta.url));

const notOurs = /(^|\/)(\.git|node_modules|dist|build|coverage|\.venv)(\/|$)/;

/**
 * Paths of all files of the project, from its root. In a git checkout: what git tracks or would
 * track; in a plain copy of the tree: what lies there, less what is made or installed.
 */
export function projectFiles(): string[] {
  return (trackedFiles() ?? walkedFiles()).filter((path) => !notOurs.test(path));
}

function trackedFiles(): string[] | undefined {
  try {
    const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard'];
    const listed = execFileSync('git', args, { cwd: root, stdio: ['ignore', 'pipe', 'ignore'] });
    const paths = listed.toString('utf8').split('\0').filter(isFile);
    return paths.length > 0 ? paths : undefined;
  } catch {
    return undefined;
  }
}

function walkedFiles(folder = ''): string[] {
  return readdirSync(root + folder, { withFileTypes: true }).flatMap((entry) => {
    const path = folder + entry.name;
    if (notOurs.test(path)) return [];
    if (entry.isDirectory()) return walkedFiles(`${path}/`);
    return entry.isFile() ? [path] : [];
  });
}

/** A file that git still lists may be deleted in the working tree. */
function isFile(path: string): boolean {
  return path !== '' && (statSync(root + path, { throwIfNoEntry: false })?.isFile() ?? false);
}
