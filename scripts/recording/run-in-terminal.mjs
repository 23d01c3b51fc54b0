import { spawn } from 'node:child_process';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** The output of a command in a pseudo-terminal, as it came: seconds since its start, and text. */
export function runInTerminal(typed, { columns, home, root }) {
  const folder = prepared(home, root);
  const child = spawn('script', ['-qfec', `stty cols ${columns} rows 40; ${typed}`, '/dev/null'], {
    cwd: folder.work,
    env: {
      ...process.env,
      TERM: 'xterm-256color',
      PATH: `${folder.bin}:${root}.venv/bin:${process.env.PATH}`,
      PLIMSOLL_HOME: join(home, 'home'),
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const began = performance.now();
  const pieces = [];
  child.stdout.on('data', (data) => {
    pieces.push({ seconds: (performance.now() - began) / 1000, text: String(data) });
  });
  return new Promise((resolve, reject) => {
    child.on('error', reject);
    child.on('close', () => resolve(pieces));
  });
}

/** A folder with the program, and `plimsoll` on the path. */
function prepared(home, root) {
  const [bin, work] = [join(home, 'bin'), join(home, 'work')];
  mkdirSync(bin, { recursive: true });
  mkdirSync(work, { recursive: true });
  copyFileSync(`${root}scripts/recording/train.py`, join(work, 'train.py'));
  const starter = join(bin, 'plimsoll');
  writeFileSync(starter, `#!/bin/sh\nexec "${process.execPath}" "${root}bin/plimsoll.js" "$@"\n`, {
    mode: 0o755,
  });
  return { bin, work };
}
