import { spawnSync } from 'node:child_process';
import { lstatSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { command, patienceMs } from './support/place.mjs';

/** Of the one that `npm test` makes, before any other. */
const ownPython = fileURLToPath(new URL('../../.venv/bin', import.meta.url));

/** An estimate runs the program of a user, and changes no file of the user. */
export const estimatedProgram = {
  name: 'estimated-program',
  title: 'an estimated program changes files by links, modes, SQLite, other programs and C',
  times: { full: 10, small: 1 },
  attack({ place, times, findings }) {
    for (let round = 0; round < times; round++) {
      const folder = join(place.folder, `round ${round}`);
      mkdirSync(folder);
      for (const name of files) writeFileSync(join(folder, name), `original ${name}\n`);
      writeFileSync(join(place.folder, 'train.py'), program);
      const before = stateOf(folder);
      const words = ['estimate', '--no-cache', '--json', '--', 'python', '../train.py', ...files];
      const { status, stdout, stderr } = spawnSync(process.execPath, [command, ...words], {
        cwd: folder,
        env: place.environment({ PATH: `${ownPython}:${process.env.PATH}` }),
        encoding: 'utf8',
        timeout: patienceMs,
      });
      if (/torch-missing|python-missing/.test(stderr)) {
        findings.notes.push('left out: there is no Python with torch');
        return;
      }
      if (status !== 0) throw new Error(`the estimate failed: ${stderr.slice(0, 600)}`);
      // By copies, what other programs and libraries in C write is written for real, and a note says so.
      const isApart = !/keep files apart/.test(stdout);
      const after = stateOf(folder);
      const changed = [...new Set([...before.keys(), ...after.keys()])]
        .filter((name) => before.get(name) !== after.get(name))
        .filter((name) => isApart || !name.startsWith('other-'));
      findings.wrong.push(...changed.map((name) => `the estimate changed ${name}`));
      if (!isApart && round === 0) findings.notes.push('by copies: the kernel allows no view');
    }
  },
};

const files = ['plain', 'linked', 'hard', 'mode', 'time', 'gone', 'moved', 'isolated'];
files.push('other-shell', 'other-clean', 'other-library');

const program = `
import ctypes, os, pathlib, sqlite3, subprocess, sys, torch
plain, linked, hard, mode, time, gone, moved, isolated, shell, clean, library = sys.argv[1:]
writes = "import sys; open(sys.argv[1], 'w').write('changed')"
open(plain, "w").write("changed")
os.symlink(os.path.abspath(linked), "new link"); open("new link", "w").write("changed")
os.link(hard, "new name"); open("new name", "w").write("changed")
os.chmod(mode, 0o700)
os.utime(time, (1, 1)); pathlib.Path(time).touch()
os.remove(gone); os.rename(moved, "elsewhere"); os.mkfifo("pipe")
sqlite3.connect("file:database?mode=rwc", uri=True).execute("create table t (x)")
subprocess.run([sys.executable, "-I", "-c", writes, isolated], check=True)
os.system(f"echo changed > {shell}; touch other-new; chmod 700 {shell}")
subprocess.run(["env", "-i", sys.executable, "-c", writes, clean], check=True)
ctypes.CDLL(None).truncate(os.fsencode(library), ctypes.c_long(0))
torch.zeros(1 << 20, device="cuda")
`;

/** What is in each file, and its mode and time. */
function stateOf(folder) {
  return new Map(
    readdirSync(folder).map((name) => {
      const path = join(folder, name);
      const about = lstatSync(path);
      const text = about.isFile() ? readFileSync(path, 'utf8') : undefined;
      return [name, JSON.stringify([about.mode, about.mtimeMs, about.nlink, text])];
    }),
  );
}
