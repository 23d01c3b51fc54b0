// Every command of the README's table, through an installed `plimsoll`.
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../steps.mjs';

// A server, a job, its log, its end: through the installed command.

/** @returns {Promise<string | undefined>} what went wrong, in words */
async function serveStory(command, { cwd, env, runTool }) {
  const server = spawn(command, ['serve', '--port', '0', '--json'], {
    cwd,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const ended = once(server, 'exit');
  try {
    await Promise.race([
      once(server.stdout, 'data'),
      ended.then(() => Promise.reject(new Error('"plimsoll serve" ended at once'))),
    ]);
    const steps = [
      [
        ['submit', '--memory', '64MiB', '--gpus', '0', '--follow', '--', 'echo', 'hello'],
        /^hello$/m,
      ],
      [['jobs', '--json'], /"succeeded"/],
    ];
    for (const [args, wanted] of steps) {
      const done = await runTool(args);
      if (done.code !== 0 || !wanted.test(done.stdout)) {
        return `plimsoll ${args.join(' ')}: exit code ${done.code}: ${done.output.trim()}`;
      }
    }
    return undefined;
  } catch (error) {
    return error.message;
  } finally {
    server.kill('SIGTERM');
    await ended;
  }
}

// One call of each command in the README's table, with input that lies in the project.

/** Takes 40 MiB a sample, for real. */
const trainProgram = (interpreter) =>
  interpreter === 'python'
    ? 'import sys\nbatch = int(sys.argv[1])\nheld = bytearray(batch * 40 * 2**20)\nfor i in range(0, len(held), 4096):\n    held[i] = 1\nprint("trained", batch)\n'
    : 'const batch = Number(process.argv[2]);\nconst held = Buffer.alloc(batch * 40 * 2 ** 20, 1);\nconsole.log("trained", batch, held.length > 0);\n';

/** Puts the input files of the commands below into `folder`. */
function layOutInput(folder, { program }) {
  cpSync(`${root}bench/truth/configs/gpt2.json`, join(folder, 'config.json'));
  cpSync(`${root}bench/truth/traces/leak-linear-0.json`, join(folder, 'trace.json'));
  const snapshot = spawnSync('xz', ['-dc', `${root}bench/truth/snapshots/oom.pickle.xz`], {
    maxBuffer: 2 ** 30,
  });
  if (snapshot.status !== 0) throw new Error('xz could not unpack the snapshot');
  writeFileSync(join(folder, 'snapshot.pickle'), snapshot.stdout);
  writeFileSync(join(folder, program.file), trainProgram(program.interpreter));
  writeFileSync(join(folder, 'jobs.txt'), '--memory 64MiB --gpus 0 -- true\n'.repeat(2));
}

/**
 * @param {{ file: string, command: string }} program
 * @returns {{ args: string[], expect: RegExp, code?: number[] }[]}
 */
function readmeCommands(program) {
  const watchFor = ['--duration', '1'];
  return [
    { args: ['--version'], expect: /^\d+\.\d+\.\d+\n$/ },
    { args: ['devices'], expect: /host/ },
    { args: ['monitor', '--once'], expect: /host/ },
    {
      args: ['profile', ...watchFor, '--output', 'profile.json', '--html', 'profile.html'],
      expect: /profile\.html/,
    },
    { args: ['oom', '--threshold', '85', ...watchFor], expect: /./, code: [0, 1] },
    { args: ['leak', '--check', '--threshold', '100', ...watchFor], expect: /./, code: [0, 1] },
    { args: ['replay', 'trace.json'], expect: /./ },
    { args: ['estimate', 'config.json', '--batch', '8', '--seq', '1024'], expect: /reserved/ },
    { args: ['estimate', 'llama-3-8b', '--batch', '8', '--seq', '1024'], expect: /reserved/ },
    {
      args: 'estimate config.json --mode serve --max-model-len 1024 --gpu h100'.split(' '),
      expect: /Room for/,
    },
    { args: ['plan', 'config.json', '--memory', '24GiB', '--train'], expect: /fits/ },
    { args: ['snapshot', 'snapshot.pickle', '--html', 'page.html'], expect: /page\.html/ },
    {
      args: `run --memory 200MiB --batch-size 8 --device host -- ${program.command} ${program.file} {batch_size} {accumulation}`.split(
        ' ',
      ),
      expect: /trained [124]\b/,
    },
    { args: ['env', '--mode', 'production'], expect: /PYTORCH/ },
    { args: ['optimize'], expect: /host/ },
    { args: ['pack', 'jobs.txt'], expect: /2 of 2 jobs succeeded/ },
    // Without Slurm on the machine it says so.
    { args: ['jobs', '--engine', 'slurm'], expect: /no-slurm/, code: [3] },
    { args: ['doctor'], expect: /node/i, code: [0, 1] },
    ...(program.interpreter === 'python'
      ? [{ args: ['migrate', '.'], expect: /1 Python file/ }]
      : []),
  ];
}

/** @returns {Promise<string[]>} what went wrong, one line each */
export async function tryCommand(command, { folder, env, program }) {
  const cwd = join(folder, 'work');
  layOutInput(cwd, { program });
  const runTool = (args) => capture(command, args, { cwd, env });
  const wrong = [];
  for (const { args, expect, code = [0] } of readmeCommands(program)) {
    const done = await runTool(args);
    const ok = code.includes(done.code) && expect.test(done.output);
    process.stdout.write(`  ${ok ? 'ok    ' : 'FAILED'} plimsoll ${args.join(' ')}\n`);
    if (!ok) {
      wrong.push(`plimsoll ${args.join(' ')}: exit code ${done.code}: ${done.output.trim()}`);
    }
  }
  const served = await serveStory(command, { cwd, env, runTool });
  process.stdout.write(
    `  ${served === undefined ? 'ok    ' : 'FAILED'} plimsoll serve, submit, jobs\n`,
  );
  return served === undefined ? wrong : [...wrong, served];
}

/** @returns {Promise<{ code: number, stdout: string, output: string }>} */
export function capture(command, args, { cwd, env }) {
  return new Promise((resolve) => {
    const parts = { stdout: '', output: '' };
    const child = spawn(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] });
    child.stdout.setEncoding('utf8').on('data', (chunk) => {
      parts.stdout += chunk;
      parts.output += chunk;
    });
    child.stderr.setEncoding('utf8').on('data', (chunk) => {
      parts.output += chunk;
    });
    child.on('error', (error) => resolve({ code: 127, stdout: '', output: error.message }));
    child.on('close', (code) => resolve({ code: code ?? 1, ...parts }));
  });
}
