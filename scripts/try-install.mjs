// `npm run test:install`: makes what people install, installs it as they do on an empty machine, and
// runs every command of the README's table: the wheel where there is no Node, the npm package where
// there is no Python.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { capture, tryCommand } from './install/try-command.mjs';
import { ensureBuilt, ensureInstalled } from './setup.mjs';
import { npm, root, run, script } from './steps.mjs';

// A machine as a new user has it: an empty HOME, the usual tools, and some of them missing.

const toolFolders = ['/usr/bin', '/bin'];
/** Slurm's client, which may be installed here without a cluster. */
const slurm = /^(sacct|sbatch|scancel|scontrol|sinfo|squeue)$/;

/**
 * @param {{ without: RegExp }} options the names of tools that this machine does not have
 * @returns {{ folder: string, env: Record<string, string>, remove: () => void }}
 */
function emptyMachine({ without }) {
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

const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));
await ensureInstalled();
await ensureBuilt();
const wrong = [...(await tryWheel()), ...(await tryNpmPackage())];
for (const line of wrong) process.stderr.write(`\n${line}\n`);
process.exitCode = wrong.length === 0 ? 0 : 1;

async function tryWheel() {
  process.stdout.write('pip install, on a machine without Node:\n');
  if (process.platform !== 'linux') {
    process.stdout.write('  left out: wheels with Node inside are for Linux\n');
    return [];
  }
  const made = await run(script('wheel.mjs', '--for', process.arch));
  if (made.code !== 0) return [`npm run wheel: ${made.output.trim()}`];
  const file = /build\/(\S+\.whl)/.exec(made.stdout)?.[1];
  const machine = emptyMachine({ without: /^(node|nodejs|npm|npx)$/ });
  try {
    const venv = join(machine.folder, 'venv');
    const env = { ...machine.env, PATH: `${venv}/bin:${machine.env.PATH}` };
    const at = { cwd: machine.folder, env };
    const steps = [
      { tool: 'python3', args: ['-m', 'venv', venv], env: process.env },
      {
        tool: `${venv}/bin/pip`,
        args: ['install', '--no-index', '--quiet', `${root}build/${file}`],
        env,
      },
      {
        tool: `${venv}/bin/python`,
        args: ['-c', `import plimsoll; assert plimsoll.__version__ == "${version}"`],
        env,
      },
    ];
    for (const step of steps) {
      const done = await capture(step.tool, step.args, { cwd: machine.folder, env: step.env });
      if (done.code !== 0) return [`${step.tool} ${step.args.join(' ')}: ${done.output.trim()}`];
    }
    const program = { file: 'train.py', interpreter: 'python', command: 'python' };
    const failed = await tryCommand(`${venv}/bin/plimsoll`, {
      folder: machine.folder,
      env,
      program,
    });
    return [...failed, ...(await tryThreeLines(venv, at))];
  } finally {
    machine.remove();
  }
}

/** With the torch of the checkout's .venv, where there is one. */
async function tryThreeLines(venv, { cwd, env }) {
  const python = `${root}.venv/bin/python`;
  if (!existsSync(python)) {
    process.stdout.write('  left out: the three lines of Python (no .venv with torch)\n');
    return [];
  }
  const where = 'import sysconfig; print(sysconfig.get_paths()["purelib"])';
  const torch = (await capture(python, ['-c', where], { cwd, env })).stdout.trim();
  const file = `${root}scripts/install/recover_in_three_lines.py`;
  const withTorch = { cwd, env: { ...env, PYTHONPATH: torch } };
  const done = await capture(`${venv}/bin/python`, [file], withTorch);
  const ok = done.code === 0 && done.stdout.includes('recovered');
  process.stdout.write(`  ${ok ? 'ok    ' : 'FAILED'} import plimsoll, recovery in three lines\n`);
  return ok ? [] : [`recover_in_three_lines.py: ${done.output.trim()}`];
}

async function tryNpmPackage() {
  process.stdout.write('npm install -g, on a machine without Python:\n');
  const machine = emptyMachine({ without: /^(node|nodejs|npm|npx|python.*)$/ });
  try {
    symlinkSync(realpathSync(process.execPath), join(machine.folder, 'tools/node'));
    // Without its build: dist is as the sources are, and other checks may be using it.
    const packed = await run(
      npm('pack', '--silent', '--ignore-scripts', '--pack-destination', machine.folder),
    );
    if (packed.code !== 0) return [`npm pack: ${packed.output.trim()}`];
    const prefix = join(machine.folder, 'prefix');
    const file = join(machine.folder, `plimsoll-${version}.tgz`);
    const installed = await run(
      npm(
        'install',
        '--global',
        '--no-audit',
        '--no-fund',
        '--fetch-retries=5',
        '--prefix',
        prefix,
        file,
      ),
    );
    if (installed.code !== 0) return [`npm install -g: ${installed.output.trim()}`];
    const program = { file: 'train.js', interpreter: 'node', command: 'node' };
    const env = { ...machine.env, PATH: `${prefix}/bin:${machine.env.PATH}` };
    return await tryCommand(`${prefix}/bin/plimsoll`, { folder: machine.folder, env, program });
  } finally {
    machine.remove();
  }
}
