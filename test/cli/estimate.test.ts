import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { gpt2TraceFile } from '../../src/estimate/trace/traces-for-tests.js';
import { readProcess } from '../../src/run/processes/process-table.js';
import { until } from '../run/running.js';
import { needsTorch, tracingPython as python } from '../support/needs.js';
import { root } from '../support/project-files.js';
import { killWhen, type Running, useCommand } from './command.js';
import { useHome } from './served.js';

const command = useCommand();
const gpt2 = join(root, 'bench/truth/configs/gpt2.json');
const size = ['--batch', '1', '--seq', '64', '--precision', 'bf16'];

describe('plimsoll estimate, with a recorded trace in place of Python', () => {
  let recorded: string[] = [];
  beforeAll(() => {
    const path = join(command.folder(), 'recorded');
    const fixture = fileURLToPath(gpt2TraceFile);
    const script = `#!/bin/sh\nfor output; do :; done\ngunzip -c '${fixture}' > "$output"\n`;
    writeFileSync(path, script);
    chmodSync(path, 0o755);
    recorded = ['estimate', gpt2, ...size, '--python', path];
  });

  it('answers as the contract says', async () => {
    const { stdout, stderr, exitCode } = await command.run([...recorded, '--json']);
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
    const answer = JSON.parse(stdout);
    const keys = [
      'method',
      'peak',
      'interval',
      'breakdown',
      'notes',
      'savings',
      'gpu',
      'schema',
      'recommendedQuantization',
    ];
    expect(Object.keys(answer).toSorted()).toEqual(keys.toSorted());
    expect(answer).toMatchObject({ method: 'trace', interval: { confidence: 0.95 } });
    expect(answer.savings[0]).toMatchObject({ basis: 'formula', savesBytes: expect.any(Number) });
    // The optimizer's step is the peak; of the activations only the batch is left by then.
    const modules = [{ module: '', count: 1, bytes: 1024 }];
    expect(answer.breakdown).toContainEqual({ part: 'activations', bytes: 1024, modules });
    const { allocatedBytes, reservedBytes, deviceBytes } = answer.peak;
    expect(allocatedBytes).toBeGreaterThan(4 * 248_879_616);
    expect(reservedBytes).toBeGreaterThan(allocatedBytes);
    expect(deviceBytes).toBeGreaterThan(reservedBytes);
  });

  it('answers the same question again without Python, unless told not to', async () => {
    const path = join(command.folder(), 'counted');
    const calls = join(command.folder(), 'calls');
    const fixture = fileURLToPath(gpt2TraceFile);
    writeFileSync(
      path,
      `#!/bin/sh\nfor output; do :; done\necho x >> '${calls}'\ngunzip -c '${fixture}' > "$output"\n`,
    );
    chmodSync(path, 0o755);
    const ask = async (...more: string[]) => {
      const asked = ['estimate', gpt2, ...size, '--python', path, '--json', ...more];
      const { stdout, exitCode } = await command.run(asked);
      expect(exitCode).toBe(0);
      const { notes, ...answer } = JSON.parse(stdout);
      const kept = notes.filter((note: string) => note.startsWith('Kept from 2'));
      return { answer, kept: kept.length, calls: readFileSync(calls, 'utf8').length / 2 };
    };
    const first = await ask();
    expect(first).toMatchObject({ kept: 0, calls: 1 });
    expect(await ask()).toEqual({ ...first, kept: 1 });
    expect(await ask('--no-cache')).toMatchObject({ kept: 0, calls: 2 });
  });

  it('draws it for people, for the card that was named', async () => {
    const { stdout } = await command.run([...recorded, '--gpu', 't4']);
    expect(stdout).toMatch(/^Peak on one Tesla T4 \(estimated, by trace\):\n/);
    expect(stdout).toContain('It fits into the 15.0 GiB of this card.');
  });

  it('writes a page, beside the one JSON document', async () => {
    const html = join(command.folder(), 'estimate.html');
    const { stdout, exitCode } = await command.run([...recorded, '--json', '--html', html]);
    expect(exitCode).toBe(0);
    expect(() => JSON.parse(stdout)).not.toThrow();
    expect(readFileSync(html, 'utf8')).toContain('<title>Memory estimate, gpt2.json</title>');
  });

  it('takes the card that is here', async () => {
    const { stdout } = await command.run([...recorded, '--json'], {
      environment: { PLIMSOLL_SIMULATE: 'steady' },
    });
    expect(JSON.parse(stdout).notes[0]).toMatch(/gpu:0/);
  });

  it.each([
    [['--method', 'guess'], 'bad-option: --method cannot be "guess".'],
    [['--mode', 'eval'], 'bad-option: --mode cannot be "eval".'],
    [['--batch', '0'], 'bad-option: --batch cannot be "0".'],
    [['--seq', '-1'], 'bad-option: --seq cannot be "-1".'],
    [['--image', '1.5'], 'bad-option: --image cannot be "1.5".'],
    [['--precision', 'fp8'], 'bad-option: --precision cannot be "fp8".'],
    [['--optimizer', 'lion'], 'bad-option: --optimizer cannot be "lion".'],
    [['--lora', 'x'], 'bad-option: --lora cannot be "x".'],
    [['--quantization', 'int2'], 'bad-option: --quantization cannot be "int2".'],
    [['--gpu', 'nonsense'], 'unknown-gpu: '],
    [['--script', 'train.py'], 'bad-usage: Both a model and --script were given.'],
    [['--type', 'cnn'], 'bad-usage: Both a model and --type were given.'],
    [['--arg', 'a=1'], 'bad-usage: --arg is for a --script, and none was given.'],
    [['--arg', 'a'], 'bad-option: --arg cannot be "a".'],
    [['--html', 'none/page.html'], 'cannot-write: none/page.html cannot be written'],
    [['--config', 'none.json'], 'none.json'],
  ])('refuses %j', async (more, message) => {
    const { stdout, stderr, exitCode } = await command.run([...recorded, ...more]);
    expect(stderr).toContain(message);
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
  });

  it.each([
    [['estimate'], 'bad-usage: No model was given.'],
    [['estimate', './nowhere', '--batch', '1'], 'no-file: '],
    [['estimate', 'nowhere', '--batch', '1'], 'unknown-model: There is no file or folder'],
    [['estimate', '--parameters', 'many'], 'bad-parameters: "many" is not a number'],
    [['estimate', 'gpt2', '--parameters', '1b'], 'Both a model and --parameters were given.'],
    [['estimate', '--type', 'cnn', '--batch', '1'], '--type and --size go together.'],
    [['estimate', '--size', 'tiny', '--batch', '1'], 'bad-option: --size cannot be "tiny".'],
    [['estimate', '--script', 'a.py', '--batch', '1'], '--batch does not reach a script.'],
    [['estimate', '--script', 'a.py', '--method', 'formula'], 'only-traced: A script'],
  ])('refuses %j', async (argv, message) => {
    const { stdout, stderr, exitCode } = await command.run(argv);
    expect(stderr).toContain(message);
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
  });
});

it('plimsoll estimate has a rule of thumb by type and size', async () => {
  const argv = ['estimate', '--type', 'transformer', '--size', 'large', '--batch', '32', '--json'];
  const { stdout, exitCode } = await command.run(argv);
  expect(exitCode).toBe(0);
  const { method, notes } = JSON.parse(stdout);
  expect(method).toBe('table');
  expect(notes.join()).toContain('A rule of thumb');
});

it('plimsoll estimate begins with the whole command, which asks the same again', async () => {
  const figures = (text: string) => text.slice(text.indexOf('  allocated'), text.indexOf('\n- '));
  const formula = ['--method', 'formula'];
  const first = await command.run(['estimate', 'llama-3.1-8b', ...formula]);
  const [, line = ''] = first.stdout.split('\n');
  const whole = `plimsoll estimate llama-3.1-8b --method formula --mode train --batch 1 --seq 2048 --precision amp-bf16 --optimizer adamw`;
  expect(line.trim()).toMatch(new RegExp(`^${whole} --gpu \\S+$`));
  expect(first.stdout).toContain('No --precision was given: amp-bf16 is assumed; ');
  const again = await command.run(line.trim().split(' ').slice(1));
  expect(figures(again.stdout)).toBe(figures(first.stdout));
  const lightning = await command.run([
    'estimate',
    'llama-3.1-8b',
    ...formula,
    '--precision',
    'bf16-mixed',
  ]);
  expect(lightning.stdout).toContain('--precision amp-bf16');
});

describe('plimsoll estimate, where there is no Python', () => {
  const none = ['estimate', gpt2, ...size, '--python', './none'];

  it('takes the formula, and says why', async () => {
    const { stdout, stderr, exitCode } = await command.run([...none, '--json']);
    expect({ stderr, exitCode }).toEqual({ stderr: '', exitCode: 0 });
    const { method, notes } = JSON.parse(stdout);
    expect(method).toBe('formula');
    expect(notes.join('\n')).toMatch(/Not traced: .*"\.\/none" could not be started.*--python\./);
  });

  it('says what is missing when it must trace', async () => {
    const ended = await command.run([...none, '--method', 'trace']);
    expect(ended.stderr).toMatch(/^plimsoll: python-missing: .*--python\.\n$/);
    expect(ended).toMatchObject({ stdout: '', exitCode: 3 });
  });
});

describe('plimsoll estimate, traced in Python', needsTorch, () => {
  it('gives what an H200 measured for the same job', async () => {
    const job = ['--batch', '16', '--seq', '1024', '--precision', 'bf16', '--optimizer', 'sgd'];
    const argv = ['estimate', gpt2, ...job, '--python', python, '--json'];
    const { stdout, stderr } = await command.run(argv);
    expect(stderr).toBe('');
    const { peak } = JSON.parse(stdout);
    expect(peak.allocatedBytes / 19_040_831_488).toBeCloseTo(1, 3);
    expect(peak.reservedBytes / 24_012_390_400).toBeCloseTo(1, 2);
  });

  it('ends at Ctrl-C with all it started, and leaves nothing behind', async () => {
    const script = join(command.folder(), 'slow.py');
    const started = join(command.folder(), 'started');
    writeFileSync(
      script,
      `import os, time\ndef workload():\n    open(${JSON.stringify(started)}, 'w').write(str(os.getpid()))\n    time.sleep(600)\n`,
    );
    const temporary = join(command.folder(), 'tmp');
    mkdirSync(temporary);
    const interruptOnceStarted = async (running: Running) => {
      while (!existsSync(started)) await new Promise((resolve) => setTimeout(resolve, 50));
      running.kill('SIGINT');
    };
    const ended = await command.run(['estimate', '--script', script, '--python', python], {
      environment: { TMPDIR: temporary },
      onStart: (running) => void interruptOnceStarted(running),
    });
    expect(ended).toMatchObject({ stdout: '', stderr: '', exitCode: 130 });
    const pid = Number(readFileSync(started, 'utf8'));
    // Killed, it is there until the kernel has ended it, and its new parent has fetched its exit code.
    await until(() => ((readProcess('/proc', pid)?.state ?? 'Z') === 'Z' ? true : undefined));
    expect(readdirSync(temporary)).toEqual([]);
  });

  it.each([
    ['def workload():\n    return {}["model"]\n', /script-failed: KeyError.*bad\.py:2\)/],
    ['def workload(\n', /script-failed: SyntaxError: .*bad\.py:1\)/],
    ['def workload(layers): pass\n', /script-failed: TypeError: .*'layers' \(.*bad\.py\)/],
    ['work = 1\n', /script-no-workload: .*bad\.py does not define a function workload\./],
  ])('tells the error of %j in one line, with where', { tags: 'rest' }, async (text, message) => {
    const script = join(command.folder(), 'bad.py');
    writeFileSync(script, `${text}print("hello")\n`);
    const argv = ['estimate', '--script', script, '--python', python];
    const { stdout, stderr, exitCode } = await command.run(argv);
    expect(stderr).toMatch(message);
    expect(stderr).toMatch(/^plimsoll: .*\n$/);
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
  });
});

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

let standIn = '';

function estimate(...argv: readonly string[]) {
  return command.run(['estimate', '--gpu', 'h200', ...argv, '--', standIn, 'train.py', '--epochs']);
}

describe('plimsoll estimate -- python train.py', () => {
  beforeAll(() => {
    standIn = join(command.folder(), 'python3');
    const find = 'for word; do [ "$last" = --output ] && output=$word; last=$word; done';
    const script = `#!/bin/sh\n${find}\necho "epoch 1" >&2\ncat > "$output" <<'END'\n${trace}\nEND\n`;
    writeFileSync(standIn, script);
    chmodSync(standIn, 0o755);
  });

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
      writeFileSync(real, `#!/bin/sh\n${noted}\nexec '${python}' "$@"\n`, { mode: 0o755 });
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

const llama = join(root, 'bench/truth/configs/llama-3.2-1b.json');
const written = ['--mode', 'generate', '--batch', '4', '--prompt', '512', '--new', '64'];

describe('plimsoll estimate --mode serve', () => {
  const argv = ['estimate', llama, '--mode', 'serve', '--gpu', '4090', '--max-model-len', '4096'];

  it('tells how many requests there is room for, over HTTP the same', async () => {
    const home = useHome(command);
    const serving = await home.serve();
    const { stdout, exitCode } = await home.run([...argv, '--json']);
    expect(exitCode).toBe(0);
    const answer = JSON.parse(stdout);
    expect(answer).toMatchObject({
      method: 'formula',
      serve: { engine: 'vllm', kvBytesPerToken: 32_768, kvPrecision: 'bf16' },
    });
    const body = { model: llama, mode: 'serve', gpu: '4090', maxModelLen: 4096 };
    const sent = await serving.ask('/estimate', {
      method: 'POST',
      body: JSON.stringify(body),
      headers: { 'content-type': 'application/json' },
    });
    expect(await sent.json()).toEqual(answer);
    const text = await home.run(argv);
    expect(text.stdout).toMatch(
      /^Room for \d+ requests of 4,096 tokens at once \(calculated, vllm\)/,
    );
  });

  it.each([
    [['--mode', 'serve', '--batch', '8'], 'there is no "batch"'],
    [['--mode', 'generate', '--batch', '8', '--new', '4'], 'No usable --prompt was given'],
    [['--batch', '8', '--seq', '8', '--prompt', '4'], '--prompt is for --mode generate'],
    [['--mode', 'serve', '--gpu-memory-utilization', '2'], '--gpu-memory-utilization'],
    [['--mode', 'serve', '--engine', 'tgi'], '--engine'],
  ])('refuses what says nothing: %j', async (more, fact) => {
    const { stdout, stderr, exitCode } = await command.run(['estimate', llama, ...more]);
    expect({ stdout, exitCode }).toEqual({ stdout: '', exitCode: 2 });
    expect(stderr).toContain(fact);
  });

  it('refuses a model that does not write', async () => {
    const bert = join(root, 'bench/truth/configs/bert-base.json');
    const { stderr, exitCode } = await command.run(['estimate', bert, '--mode', 'serve']);
    expect(exitCode).toBe(2);
    expect(stderr).toContain('does not write text');
  });
});

describe('plimsoll estimate --mode generate', () => {
  it('calculates where there is no Python, and says why', async () => {
    const argv = ['estimate', llama, ...written, '--python', '/nowhere/python3', '--json'];
    const { stdout, exitCode } = await command.run(argv);
    expect(exitCode).toBe(0);
    const { method, notes } = JSON.parse(stdout);
    expect(method).toBe('formula');
    expect(JSON.stringify(notes)).toContain('By formula, as it could not be traced');
  });

  it('traces generate() itself: beams, to what an H200 measured', {
    ...needsTorch,
    tags: 'rest',
  }, async () => {
    const argv = ['estimate', llama, ...written, '--beams', '4', '--gpu', 'h200', '--json'];
    const { stdout, stderr } = await command.run([...argv, '--python', python]);
    expect(stderr).toBe('');
    const { peak, method } = JSON.parse(stdout);
    expect(method).toBe('trace');
    expect(peak.reservedBytes / 3_470_786_560).toBeCloseTo(1, 2);
    expect(peak.allocatedBytes / 3_314_091_520).toBeCloseTo(1, 3);
  });
});

/** The most layers that are taken: every estimate of it is many seconds of work. */
function deep(): string {
  const path = join(command.folder(), 'deep.json');
  const sizes = { hidden_size: 4096, num_attention_heads: 32, num_hidden_layers: 2000 };
  writeFileSync(path, JSON.stringify({ model_type: 'llama', ...sizes }));
  return path;
}

const request = (model: string) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ model, batch: 8, seq: 1024, gpu: 'h100', method: 'formula' }),
});

describe('a heavy estimate', () => {
  it('does not hold up the other answers of a server, and ends with its client', async () => {
    const serving = await useHome(command).serve();
    const order: string[] = [];
    const gone = new AbortController();
    const heavy = serving
      .ask('/estimate', { ...request(deep()), signal: gone.signal })
      .then(({ status }) => order.push(`heavy ${status}`))
      .catch(() => order.push('heavy left'));
    for (let count = 0; count < 20; count += 1) {
      const { status } = await serving.ask('/jobs');
      order.push(`light ${status}`);
    }
    gone.abort();
    await heavy;
    expect(order).toEqual([...Array(20).fill('light 200'), 'heavy left']);
    // Its place is free again: those who come later do not wait for abandoned work.
    const path = join(command.folder(), 'small.json');
    writeFileSync(path, JSON.stringify({ model_type: 'gpt2', n_layer: 2 }));
    expect((await serving.ask('/estimate', request(path))).status).toBe(200);
  });

  it('is refused where a config asks for a billion layers, and the server goes on', async () => {
    const serving = await useHome(command).serve();
    const path = join(command.folder(), 'swin.json');
    writeFileSync(path, JSON.stringify({ model_type: 'swin', depths: [1e9, 2, 18, 2] }));
    const answer = await serving.ask('/estimate', request(path));
    expect(answer.status).toBe(400);
    expect(await answer.text()).toContain('1000000022 layers in all; at most 2000 are taken');
    expect((await serving.ask('/healthz')).ok).toBe(true);
  });

  it.each([
    ['estimate', []],
    ['plan', ['--memory', '80GiB']],
  ])('plimsoll %s is interrupted at once', async (name, more) => {
    const sizes = ['--batch', '8', '--seq', '1024', '--gpu', 'h100', '--method', 'formula'];
    const path = deep();
    const watched = {
      NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(announce)}`,
    };
    const ended = await command.run([name, path, ...sizes, ...more], {
      environment: watched,
      onOutput: killWhen(({ stderr }) => stderr.includes('working'), 'SIGINT'),
    });
    expect(ended).toMatchObject({ stdout: '', exitCode: 130 });
  });
});

/** Says so once a thread has its first task; it takes minutes for it. */
const announce = `
import { isMainThread, parentPort } from 'node:worker_threads';
if (!isMainThread) parentPort.once('message', () => process.stderr.write('working'));`;
