// Running the steps of a script: one line before each, its output only when it fails.
import { spawn } from 'node:child_process';
import {
  chmodSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  rmSync,
} from 'node:fs';
import { constants, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const root = fileURLToPath(new URL('..', import.meta.url));

/** The place of a tool's starter inside node_modules, run by this very Node: no PATH, no shell. */
const tools = {
  biome: '@biomejs/biome/bin/biome',
  knip: 'knip/bin/knip.js',
  oxlint: 'oxlint/bin/oxlint',
  publint: 'publint/src/cli.js',
  tsc: 'typescript/bin/tsc',
  vitest: 'vitest/vitest.mjs',
};

/** @returns {[string, string[]]} how to start a tool of node_modules with these arguments */
export function tool(name, ...args) {
  return [process.execPath, [`${root}node_modules/${tools[name]}`, ...args]];
}

/** @returns {[string, string[]]} how to start a script of this folder */
export function script(name, ...args) {
  return [process.execPath, [`${root}scripts/${name}`, ...args]];
}

/** @returns {[string, string[]]} how to start the npm that started us, or the one on the PATH */
export function npm(...args) {
  const cli = process.env.npm_execpath;
  return cli?.endsWith('.js') ? [process.execPath, [cli, ...args]] : ['npm', args];
}

/**
 * Runs a command to its end. With `show` its output goes straight to the terminal.
 *
 * @returns {Promise<{ code: number, output: string, stdout: string }>} output has stderr in it, too
 */
export function run([command, args], { show = false, env = process.env } = {}) {
  return new Promise((resolve) => {
    let output = '';
    let stdout = '';
    const child = spawn(command, args, {
      cwd: root,
      env,
      stdio: show ? 'inherit' : ['ignore', 'pipe', 'pipe'],
      shell: process.platform === 'win32' && command === 'npm',
    });
    child.stdout?.setEncoding('utf8').on('data', (chunk) => {
      stdout += chunk;
      output += chunk;
    });
    child.stderr?.setEncoding('utf8').on('data', (chunk) => {
      output += chunk;
    });
    child.on('error', (error) => {
      resolve({ code: 127, output: `${output}${error.message}\n`, stdout });
    });
    child.on('close', (code, signal) => {
      resolve({ code: code ?? (signal === 'SIGINT' ? 130 : 1), output, stdout });
    });
  });
}

/**
 * Runs a command that starts daemons. All that it starts gets a temporary folder of its own, and is ended
 * when the command ends or a signal asks us to end; then the folder is removed. Needs /proc.
 *
 * @returns {Promise<number>} the exit code
 */
export async function runWithDaemons(command) {
  // A short name: those of sockets in it are limited.
  const folder = mkdtempSync(join(realpathSync(tmpdir()), 'pe-'));
  // As the machine's own: other accounts have jobs here.
  chmodSync(folder, 0o1777);
  let signal;
  const end = (name) => {
    signal ??= name;
    endAllOf(folder);
  };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, end);
  const { code } = await run(command, { show: true, env: { ...process.env, TMPDIR: folder } });
  endAllOf(folder);
  rmSync(folder, { recursive: true, force: true });
  return signal === undefined ? code : 128 + constants.signals[signal];
}

/** SIGKILL until there are none: one may start another while it is looked for. */
function endAllOf(folder) {
  const own = () =>
    readdirSync('/proc').filter(
      (pid) => /^\d+$/.test(pid) && Number(pid) !== process.pid && isOf(folder, `/proc/${pid}`),
    );
  for (let left = own(); left.length > 0; left = own()) {
    for (const pid of left) {
      try {
        process.kill(Number(pid), 'SIGKILL');
      } catch {
        // It has ended.
      }
    }
  }
}

/** Whether a process names the folder in its environment or its command, or has a file below it open. */
function isOf(folder, process) {
  try {
    // One that nobody waits for stays in the table when it is dead.
    if (/^State:\s+Z/m.test(readFileSync(`${process}/status`, 'utf8'))) return false;
    return (
      ['environ', 'cmdline'].some((file) => readFileSync(`${process}/${file}`).includes(folder)) ||
      readdirSync(`${process}/fd`).some((file) =>
        readlinkSync(`${process}/fd/${file}`).startsWith(folder),
      )
    );
  } catch {
    return false;
  }
}

/** A step that must succeed: says what it does, and on failure what it said and how to go on. */
export async function runRequired(saying, command, next) {
  process.stderr.write(`${saying} ...\n`);
  const { code, output } = await run(command);
  if (code === 0) return;
  process.stderr.write(`${output}\nThis step failed (exit code ${code}): ${saying}. ${next}\n`);
  process.exit(code);
}
