// One call of each command in the README's table, with input that lies in the project.

import { spawnSync } from 'node:child_process';
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { root } from '../steps.mjs';

/** Takes 40 MiB a sample, for real. */
const trainProgram = (interpreter) =>
  interpreter === 'python'
    ? 'import sys\nbatch = int(sys.argv[1])\nheld = bytearray(batch * 40 * 2**20)\nfor i in range(0, len(held), 4096):\n    held[i] = 1\nprint("trained", batch)\n'
    : 'const batch = Number(process.argv[2]);\nconst held = Buffer.alloc(batch * 40 * 2 ** 20, 1);\nconsole.log("trained", batch, held.length > 0);\n';

/** Puts the input files of the commands below into `folder`. */
export function layOutInput(folder, { program }) {
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
export function readmeCommands(program) {
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
