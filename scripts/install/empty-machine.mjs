// A machine as a new user has it: an empty HOME, the usual tools, and some of them missing.
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const toolFolders = ['/usr/bin', '/bin'];
/** Slurm's client, which may be installed here without a cluster. */
const slurm = /^(sacct|sbatch|scancel|scontrol|sinfo|squeue)$/;

/**
 * @param {{ without: RegExp }} options the names of tools that this machine does not have
 * @returns {{ folder: string, env: Record<string, string>, remove: () => void }}
 */
export function emptyMachine({ without }) {
  const folder = mkdtempSync(join(tmpdir(), 'plimsoll-install-'));
  const tools = join(folder, 'tools');
  const home = join(folder, 'home');
  const work = join(folder, 'work');
  for (const each of [tools, home, work]) mkdirSync(each);
  const linked = new Set();
  for (const from of toolFolders) {
    for (const name of readdirSync(from)) {
      if (without.test(name) || slurm.test(name) || linked.has(name)) continue;
      linked.add(name);
      symlinkSync(join(from, name), join(tools, name));
    }
  }
  return {
    folder,
    env: { HOME: home, PATH: tools, LANG: 'C.UTF-8', TERM: 'dumb' },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}
