// Running the steps of a script: one line before each, its output only when it fails.
import { spawn } from 'node:child_process';
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

/** A step that must succeed: says what it does, and on failure what it said and how to go on. */
export async function runRequired(saying, command, next) {
  process.stderr.write(`${saying} ...\n`);
  const { code, output } = await run(command);
  if (code === 0) return;
  process.stderr.write(`${output}\nThis step failed (exit code ${code}): ${saying}. ${next}\n`);
  process.exit(code);
}
