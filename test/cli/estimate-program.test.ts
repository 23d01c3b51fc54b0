import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { needsTorch, tracingPython } from '../support/needs.js';
import { useCommand } from './command.js';

const command = useCommand();

/** In Python's place: says what a program says, and writes the trace of one with two phases. */
const trace = [
  '{"plimsoll":"trace","version":1,"torch":"2.11.0","workload":{"program":["train.py"]}}',
  '["s",0,""]',
  '["m","phase:building"]',
  '["a",1,104857600,0,0,"w"]',
  '["m","phase:steady steps"]',
  '["a",2,209715200,0,0,"x"]',
  '["f",2]',
  '{"end":true,"parameters":26214400,"parameterBytes":104857600,"notes":["as traced"]}',
].join('\n');

let python = '';
beforeAll(() => {
  python = join(command.folder(), 'python3');
  const find = 'for word; do [ "$last" = --output ] && output=$word; last=$word; done';
  const script = `#!/bin/sh\n${find}\necho "epoch 1" >&2\ncat > "$output" <<'END'\n${trace}\nEND\n`;
  writeFileSync(python, script);
  chmodSync(python, 0o755);
});

function estimate(...argv: readonly string[]) {
  return command.run(['estimate', '--gpu', 'h200', ...argv, '--', python, 'train.py', '--epochs']);
}

describe('plimsoll estimate -- python train.py', () => {
  it('answers as for a model, with the phases of the program', async () => {
    const { stdout, stderr, exitCode } = await estimate('--json');
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' });
    const answer: unknown = JSON.parse(stdout);
    expect(answer).toMatchObject({
      method: 'trace',
      peak: { allocatedBytes: 314572800, reservedBytes: 314572800 },
      gpu: { name: 'NVIDIA H200' },
      phases: [
        { phase: 'building', reservedBytes: 104857600, makesPeak: false },
        { phase: 'steady steps', reservedBytes: 314572800, makesPeak: true },
      ],
    });
  });

  it('shows phases to people, and what the program prints to those who ask', async () => {
    const { stdout, stderr } = await estimate('--verbose');
    expect(stderr).toBe('epoch 1\n');
    expect(stdout).toContain('By phase, reserved and allocated:');
    expect(stdout).toMatch(/steady steps +300 MiB +300 MiB {2}makes the peak/);
    expect(stdout).toContain('as traced');
  });

  it('writes one page with its phases', async () => {
    const { stdout } = await estimate('--html', 'program.html');
    expect(stdout).toContain('Written to program.html.');
    const page = readFileSync(join(command.folder(), 'program.html'), 'utf8');
    expect(page).toContain('train.py --epochs');
    expect(page).toMatch(/steady steps<\/th>.*300.MiB.*makes the peak/);
  });

  it(
    'traces a program once, and again when a module that it imports changes',
    needsTorch,
    async () => {
      const folder = command.folder();
      const traces = join(folder, 'traces');
      mkdirSync(join(folder, 'bin'));
      const real = join(folder, 'bin/python');
      const noted = `case "$*" in *--program*) echo traced >> '${traces}';; esac`;
      writeFileSync(real, `#!/bin/sh\n${noted}\nexec '${tracingPython}' "$@"\n`, { mode: 0o755 });
      writeFileSync(join(folder, 'net.py'), 'WIDTH = 1024\n');
      writeFileSync(
        join(folder, 'train.py'),
        "import net, torch\ntorch.zeros(net.WIDTH, net.WIDTH, device='cuda')\n",
      );
      const ask = async (...options: readonly string[]) => {
        const argv = ['estimate', '--gpu', 'h200', '--json', ...options, '--', real, 'train.py'];
        const { stdout, stderr } = await command.run(argv);
        expect(stderr).toBe('');
        const { peak, notes } = JSON.parse(stdout);
        const isKept = String(notes.at(-1)).startsWith('Kept from');
        const count = readFileSync(traces, 'utf8').trim().split('\n').length;
        return { bytes: peak.allocatedBytes, isKept, count };
      };
      const bytes = 4 * 1024 * 1024;
      expect(await ask()).toEqual({ bytes, isKept: false, count: 1 });
      expect(await ask()).toEqual({ bytes, isKept: true, count: 1 });
      expect(await ask('--no-cache')).toEqual({ bytes, isKept: false, count: 2 });
      writeFileSync(join(folder, 'net.py'), 'WIDTH = 2048\n');
      expect(await ask()).toEqual({ bytes: 4 * bytes, isKept: false, count: 3 });
      expect(await ask()).toEqual({ bytes: 4 * bytes, isKept: true, count: 3 });
    },
  );

  it('refuses settings of models, and programs that are not Python', async () => {
    const { stderr, exitCode } = await estimate('--batch', '8');
    expect(exitCode).toBe(2);
    expect(stderr).toContain('--batch is for models; a program is run as it is.');
    const other = await command.run(['estimate', '--', 'node', 'train.js']);
    expect(other.exitCode).toBe(2);
    expect(other.stderr).toContain('"node" is not a Python program');
  });
});
