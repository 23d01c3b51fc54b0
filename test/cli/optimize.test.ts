import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { fakePython } from '../support/fake-python.js';
import { useCommand } from './command.js';

const gpt2 = JSON.stringify({
  model_type: 'gpt2',
  n_embd: 768,
  n_layer: 12,
  n_head: 12,
  n_positions: 1024,
  vocab_size: 50257,
});

interface Answer {
  readonly mode: string;
  readonly advice: readonly {
    readonly code: string;
    readonly steps: readonly string[];
    readonly saves: { readonly kind: string; readonly bytes?: number };
  }[];
  readonly devices: readonly { readonly id: string }[];
  readonly training?: {
    readonly fits: boolean;
    readonly settings: Readonly<Record<string, unknown>>;
    readonly loading: Readonly<Record<string, unknown>>;
    readonly paste: Readonly<Record<string, string>>;
  };
  readonly applied: boolean;
  readonly changes: readonly { readonly path: string }[];
}

describe('plimsoll optimize', () => {
  const command = useCommand();
  const json = async (argv: readonly string[], environment: Record<string, string> = {}) => {
    const ended = await command.run(['optimize', ...argv, '--json'], { environment });
    const answer: Answer = JSON.parse(ended.stdout);
    return { ...ended, answer };
  };
  const own = (name: string, config?: object) => {
    const folder = join(command.folder(), name);
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(join(folder, '.git'), { recursive: true });
    writeFileSync(join(folder, 'config.json'), gpt2);
    if (config) writeFileSync(join(folder, 'plimsoll.config.json'), JSON.stringify(config));
    return folder;
  };
  const model = ['config.json', '--batch', '64', '--seq', '512', '--method', 'formula'];

  it('looks at the machine, and names a debug setting with what it costs', async () => {
    const { answer, exitCode } = await json(['--mode', 'quick', '--watch', '0.3'], {
      CUDA_LAUNCH_BLOCKING: '1',
    });
    expect(exitCode).toBe(0);
    expect(answer.devices.map(({ id }) => id)).toContain('host');
    const found = answer.advice.find(({ code }) => code === 'debug-setting');
    expect(found).toMatchObject({
      steps: ["export CUDA_LAUNCH_BLOCKING='0'"],
      saves: { kind: 'time', source: 'measured' },
    });
  });

  it('finds what the allocator of a simulated card holds, and says that it is simulated', async () => {
    const columns = ['seconds', 'allocated', 'reserved', 'device_used'];
    const rows = [0, 10_000].map((seconds) => [seconds, 1e9, 3e9, 3.1e9]);
    const trace = join(command.folder(), 'cache.json');
    writeFileSync(trace, JSON.stringify({ capacity: 4e9, columns, rows }));
    const { answer } = await json(['--simulate', trace, '--watch', '0.3']);
    const cache = answer.advice.find(({ code }) => code === 'allocator-cache');
    expect(cache?.saves).toMatchObject({
      kind: 'bytes',
      bytes: 2e9,
      source: 'simulated',
      device: 'gpu:0',
    });
  });

  it('plans a model: settings, what each saves in order, and what to paste', async () => {
    const folder = own('plan');
    const { stdout, exitCode } = await command.run(
      ['optimize', '--mode', 'training', ...model, '--gpu', '4090', '--json'],
      { cwd: folder },
    );
    expect(exitCode).toBe(0);
    const { training, advice, devices }: Answer = JSON.parse(stdout);
    expect(devices).toEqual([]);
    expect(training?.fits).toBe(true);
    const { batch, accumulation } = training?.settings ?? {};
    expect(Number(batch) * Number(accumulation)).toBe(64);
    expect(training?.paste['trainer']).toContain(`per_device_train_batch_size=${String(batch)}`);
    const bytes = advice.flatMap(({ saves }) => (saves.kind === 'bytes' ? [saves.bytes ?? 0] : []));
    expect(bytes.length).toBeGreaterThan(2);
    expect(bytes).toEqual(bytes.toSorted((a, b) => b - a));
  });

  it('takes what options leave open from the configuration', async () => {
    const folder = own('configured', {
      memoryLimitBytes: 20e9,
      training: { batch: 8, precision: 'bf16', checkpointing: true },
      loading: { workers: 3 },
    });
    const asked = ['config.json', '--seq', '512', '--method', 'formula', '--json'];
    const { stdout } = await command.run(['optimize', '--mode', 'training', ...asked], {
      cwd: folder,
    });
    const { training }: Answer = JSON.parse(stdout);
    expect(training?.settings).toMatchObject({ batch: 8, precision: 'bf16', checkpointing: true });
    expect(training?.loading).toMatchObject({ workers: 3 });
  });

  it('traces a program, chooses its batch where it can be told, and says what its parts take', async () => {
    const folder = own('program');
    const program = [fakePython(folder), 'train.py', '--batch-size'];
    const asked = ['--mode', 'training', '--gpu', 'h200', '--memory', '2GiB', '--json', '--'];
    const chosen = await command.run(['optimize', ...asked, ...program, '{batch_size}'], {
      cwd: folder,
    });
    const { training, advice }: Answer = JSON.parse(chosen.stdout);
    const batch = Number(training?.settings['batch']);
    expect(training?.fits).toBe(true);
    expect(batch).toBeGreaterThan(32);
    expect(training?.paste['shell']).toMatch(new RegExp(`-- \\S+ train.py --batch-size ${batch}$`));
    expect(advice.map(({ code }) => code)).toContain('data-loading');
    const asItIs = await command.run(['optimize', ...asked, ...program, '8'], { cwd: folder });
    const fixed: Answer = JSON.parse(asItIs.stdout);
    expect(fixed.training).toMatchObject({ fits: true, settings: { batch: 'unknown' } });
  });

  it('exits with 1 when the training does not fit', async () => {
    const argv = [...model, '--memory', '200MiB', '--precision', 'fp32'];
    const { exitCode, stdout } = await command.run(['optimize', '--mode', 'training', ...argv], {
      cwd: own('tight'),
    });
    expect(exitCode).toBe(1);
    expect(stdout).toMatch(/config\.json does not fit/);
  });

  it('writes what it chose with --apply, keeps other keys, and takes it back with --undo', async () => {
    const before = { intervalSeconds: 2, training: { maxBatch: 512 } };
    const folder = own('applied', before);
    const file = join(folder, 'plimsoll.config.json');
    const original = readFileSync(file, 'utf8');
    const argv = ['optimize', '--mode', 'full', ...model, '--gpu', '4090', '--watch', '0.1'];
    const applied = await command.run([...argv, '--apply', '--json'], { cwd: folder });
    const answer: Answer = JSON.parse(applied.stdout);
    expect(answer.applied).toBe(true);
    expect(JSON.parse(readFileSync(file, 'utf8'))).toMatchObject({
      intervalSeconds: 2,
      training: { maxBatch: 512, batch: 64 },
      loading: { pinMemory: true },
    });
    expect(readFileSync(join(folder, 'plimsoll.env'), 'utf8')).toMatch(/^CUDA_LAUNCH_BLOCKING=0$/m);
    // A second time there is nothing left to write.
    const again = await command.run([...argv, '--apply', '--json'], { cwd: folder });
    const repeated: Answer = JSON.parse(again.stdout);
    expect(repeated.changes).toEqual([]);
    const undone = await command.run(['optimize', '--undo', '--json'], { cwd: folder });
    const { restored }: { restored: string[] } = JSON.parse(undone.stdout);
    expect(restored).toHaveLength(2);
    expect(readFileSync(file, 'utf8')).toBe(original);
    expect(existsSync(join(folder, 'plimsoll.env'))).toBe(false);
    const nothing = await command.run(['optimize', '--undo'], { cwd: folder });
    expect(nothing.exitCode).toBe(2);
    expect(nothing.stderr).toMatch(/^plimsoll: nothing-to-undo: /);
  });

  it('writes a report as JSON and as a page', async () => {
    const folder = own('reports');
    for (const name of ['found.json', 'found.html']) {
      const argv = ['optimize', '--watch', '0.1', '--report', name];
      expect((await command.run(argv, { cwd: folder })).exitCode).toBe(0);
    }
    const found: Answer = JSON.parse(readFileSync(join(folder, 'found.json'), 'utf8'));
    expect(found.mode).toBe('quick');
    expect(readFileSync(join(folder, 'found.html'), 'utf8')).toMatch(
      /^<!doctype html>.*<\/html>\n$/s,
    );
  });

  it('advises on the heap of a program that runs on Node', async () => {
    const argv = [
      '--mode',
      'training',
      '--',
      process.execPath,
      '--max-old-space-size=99999999',
      'a.js',
    ];
    const { stdout } = await command.run(['optimize', '--json', ...argv]);
    const { advice }: Answer = JSON.parse(stdout);
    const heap = advice.find(({ code }) => code === 'node-heap');
    expect(heap?.steps[0]).toMatch(/^node --max-old-space-size=\d+ \.\.\. \(in its command\)$/);
  });

  it.each([
    [['--mode', 'quick', 'gpt2'], /^plimsoll: bad-usage: --mode quick looks at the machine/],
    [['--mode', 'training'], /^plimsoll: bad-usage: --mode training needs a model/],
    [['--undo', '--apply'], /^plimsoll: bad-usage: --undo stands alone/],
    [['--report', 'a.txt'], /^plimsoll: bad-usage: --report cannot be "a.txt"/],
    [['--report', 'none/a.json'], /^plimsoll: cannot-write: /],
    [['--mode', 'fast'], /--mode/],
    [['--mode', 'training', 'no-such-model-at-all', '--gpu', '4090'], /^plimsoll: [a-z-]+: /],
  ])('refuses %s in one line, and changes nothing', async (argv, line) => {
    const folder = own('refused');
    const { stderr, stdout, exitCode } = await command.run(['optimize', ...argv], { cwd: folder });
    expect({ exitCode, stdout }).toEqual({ exitCode: 2, stdout: '' });
    expect(stderr).toMatch(line);
    expect(existsSync(join(folder, 'plimsoll.env'))).toBe(false);
  });
});
