import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Gpu } from '../cards/gpu-table.js';
import type { Parallel } from '../parallel.js';
import type { Workload } from '../types.js';
import type { Wording } from '../wording.js';
import { crashOf } from './crash-file.js';
import { type PythonEnd, pythonFailure } from './python-failure.js';
import { defaultTimeoutSeconds, interrupted, pythonEnvironment, runPython } from './run-python.js';
import { readTrace, type Trace } from './trace-file.js';
import { ownFiles } from './trace-place.js';
import { tracedGpu } from './traced-estimate.js';
import { type TraceRunner, WarmTracer } from './warm-tracer.js';

/** What to trace: a Hugging Face config, a classifier of torchvision, or a Python file. */
export type TraceSource =
  | { readonly kind: 'config'; readonly path: string }
  | { readonly kind: 'torchvision'; readonly name: string }
  | { readonly kind: 'script'; readonly path: string; readonly args: readonly string[] };

export interface PythonTraceOptions {
  /** The Python to run; otherwise that of the active virtual environment, or `python3`. */
  readonly python?: string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly folder: string;
  /** Ends it early, with everything it started. */
  readonly signal?: AbortSignal | undefined;
  /** A 7B model takes some 15 s; what takes longer than 10 minutes hangs. */
  readonly timeoutSeconds?: number | undefined;
  /** Told what goes on, for a person who waits, and how far it is, 0 to 1, where that is known. */
  readonly onProgress?: ((text: string, share?: number) => void) | undefined;
  /** The card to trace for; otherwise the H200. */
  readonly gpu?: Gpu | undefined;
  /** How failures name settings. */
  readonly wording?: Wording | undefined;
  /** A tracer that is loaded already; a script gets a Python of its own all the same. */
  readonly warm?: TraceRunner | undefined;
}

/**
 * Runs a few steps of a model on the meta device in Python, and reads what it would have asked
 * CUDA's allocator for. The model's own output is not shown; nothing is written but a temporary file.
 *
 * @example
 * const source = { kind: 'config', path: 'gpt2/config.json' } as const;
 * const trace = await pythonTrace(source, workload, { environment: process.env, folder: '.' });
 */
export async function pythonTrace(
  source: TraceSource,
  workload: Workload,
  options: PythonTraceOptions,
): Promise<Trace> {
  const scratch = await mkdtemp(join(tmpdir(), 'plimsoll-trace-'));
  try {
    const output = join(scratch, 'trace.jsonl');
    const program = pythonProgram(options.python, options.environment);
    const args = [
      '-m',
      'plimsoll_trace',
      ...traceArguments(source, workload, options.gpu),
      '--output',
      output,
    ];
    // What torch and the model put aside (torch alone leaves a folder) goes with our own file.
    const temporary = { TMPDIR: scratch, TEMP: scratch, TMP: scratch };
    const environment = { ...options.environment, ...temporary };
    const end =
      (await warmEnd(source, args.slice(2), scratch, options)) ??
      (await runPython(program, args, { ...options, environment }));
    const crash = await crashOf(ownFiles, output, end);
    const failure = pythonFailure(program, crash, await ownFiles.has(output), options.wording);
    if (failure !== undefined) throw failure;
    return await readTrace(ownFiles.read(output));
  } finally {
    // What was killed with it may still hold on to a file for a moment.
    await rm(scratch, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** A script may change what it imports, or want to be told before: it is not run in what is loaded. */
async function warmEnd(
  source: TraceSource,
  args: readonly string[],
  scratch: string,
  { warm, signal, timeoutSeconds = defaultTimeoutSeconds }: PythonTraceOptions,
): Promise<PythonEnd | undefined> {
  if (warm === undefined || source.kind === 'script' || signal?.aborted) return undefined;
  const end = await warm.run({ args, scratch, timeoutSeconds, signal });
  if (signal?.aborted) throw interrupted();
  return end;
}

/**
 * A tracer that stays loaded, for who answers many questions; see `WarmTracer`.
 *
 * @example
 * const tracer = warmTracer({ environment: process.env, folder: '.' }, async () => 'unchanged');
 */
export function warmTracer(
  { python, environment, folder }: Pick<PythonTraceOptions, 'python' | 'environment' | 'folder'>,
  stamp: () => Promise<string>,
): WarmTracer {
  return new WarmTracer({
    program: pythonProgram(python, environment),
    args: ['-W', 'ignore', '-m', 'plimsoll_trace', '--warm'],
    // A process with threads cannot be forked safely; OpenBLAS starts some when it is loaded.
    environment: { ...pythonEnvironment(environment, false), OPENBLAS_NUM_THREADS: '1' },
    folder,
    stamp,
  });
}

/**
 * Which Python to run.
 *
 * @example
 * pythonProgram(undefined, { VIRTUAL_ENV: '/srv/venv' }); // '/srv/venv/bin/python'
 */
export function pythonProgram(
  wanted: string | undefined,
  environment: Readonly<Record<string, string | undefined>>,
  platform: NodeJS.Platform = process.platform,
): string {
  if (wanted !== undefined) return wanted;
  const active = environment['VIRTUAL_ENV'];
  const windows = platform === 'win32';
  if (active) return join(active, ...(windows ? ['Scripts', 'python.exe'] : ['bin', 'python']));
  // Set by the command of a wheel: the Python that it was installed into.
  return environment['PLIMSOLL_PYTHON'] || (windows ? 'python' : 'python3');
}

/**
 * The arguments of `python -m plimsoll_trace`.
 *
 * @example
 * traceArguments({ kind: 'torchvision', name: 'resnet50' }, workload); // ['--torchvision=resnet50', ..]
 * traceArguments(source, workload, findGpu('3060')); // [.., '--capability=8.6', '--multiprocessors=28', ..]
 */
export function traceArguments(source: TraceSource, workload: Workload, gpu?: Gpu): string[] {
  // In one word each, so that no value is taken for an option.
  const args: string[] = [];
  const add = (name: string, value: string | number | undefined) => {
    if (value !== undefined) args.push(`--${name}=${value}`);
  };
  if (source.kind === 'config') add('config', source.path);
  else if (source.kind === 'torchvision') add('torchvision', source.name);
  else {
    add('script', source.path);
    for (const arg of source.args) add('arg', arg);
  }
  add('mode', workload.mode);
  add('batch', workload.batch);
  add('seq', workload.sequence);
  add('image', workload.image);
  add('target-seq', workload.targetSequence);
  add('keep', workload.keep);
  add('precision', workload.precision);
  if (workload.mode === 'train') {
    add('optimizer', workload.optimizer);
    add('accumulation', workload.accumulation);
  }
  if (workload.checkpointing) args.push('--checkpointing');
  add('lora', workload.loraRank);
  add('quantization', workload.quantization);
  if (workload.parallel !== undefined) args.push(...parallelArguments(workload.parallel));
  return [...args, ...cardArguments(gpu)];
}

/** How a job is spread over GPUs, as `python -m plimsoll_trace` takes it. */
export function parallelArguments(parallel: Parallel): string[] {
  const { gatherPrecision, reducePrecision, reshard, originalParameters, bucketView } = parallel;
  const named = {
    parallel: parallel.way,
    gpus: parallel.gpus,
    tp: parallel.tensorParallel,
    nodes: parallel.nodes,
    'gather-precision': gatherPrecision,
    'reduce-precision': reducePrecision,
    'fsdp-strategy': parallel.fsdpStrategy,
    'bucket-mb': parallel.bucketMb,
    offload: parallel.offload,
  };
  return [
    ...Object.entries(named).flatMap(([name, value]) =>
      value === undefined ? [] : [`--${name}=${value}`],
    ),
    ...(reshard === false ? ['--no-reshard'] : []),
    ...(originalParameters === false ? ['--no-orig-params'] : []),
    ...(bucketView === true ? ['--bucket-view'] : []),
  ];
}

/** The card as `python -m plimsoll_trace` takes it; none for the H200, whose facts it holds to the byte. */
export function cardArguments(gpu: Gpu | undefined): string[] {
  if (gpu === undefined || !hasOwnKernels(gpu)) return [];
  return [
    `--gpu=${gpu.name}`,
    `--capability=${gpu.capability}`,
    `--multiprocessors=${gpu.multiprocessors}`,
    `--gpu-memory=${gpu.capacityBytes}`,
  ];
}

function hasOwnKernels({ name, vendor, capability }: Gpu): boolean {
  return name !== tracedGpu && vendor === 'nvidia' && /^\d+\.\d$/.test(capability);
}
