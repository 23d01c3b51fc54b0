import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { Worker } from 'node:worker_threads';
import { Failure, type FailureKind } from '../../failure.js';
import type { ReadSource } from '../estimate-work.js';
import {
  type AnyAnswer,
  type AnyTask,
  type EstimateTask,
  type EstimateWork,
  inThisThread,
  type LeastCapacityTask,
  type ReadTask,
} from '../estimate-work.js';
import { NoFormula } from '../formula/checks.js';
import type { LeastCapacity } from '../least-capacity.js';
import type { Estimate } from '../types.js';
import { onWorkLimit, processSeconds, type WorkLimit } from '../work-limit.js';

export interface EstimateThreadsOptions {
  /** The program of a thread: it calls `answerTasks`. */
  readonly program: URL;
  /** How many threads there are at most; each keeps one core busy. */
  readonly most: number;
  /** Of a processor; ten times as much by the clock. */
  readonly timeoutSeconds?: number;
  readonly heapMebibytes?: number;
  /** Whether a thread may start another, for what can be done at the same time. */
  readonly inPairs?: boolean;
}

export interface EstimateThreads {
  readonly work: EstimateWork;
  /** Ends all threads; what they were doing fails as interrupted. */
  readonly close: () => Promise<void>;
}

/** A model of 2,000 layers, the most there may be, takes 10 to 30 s; what takes longer hangs. */
const usualTimeoutSeconds = 180;
/** On a busy machine, work of 20 s took nine minutes. */
const clockTimes = 10;
/** A model of 2,000 layers takes up to 300 MiB. */
const usualHeapMebibytes = 1024;

interface Job {
  readonly task: AnyTask;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (answer: AnyAnswer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Does the work of estimates in threads of their own, so that a server answers others meanwhile and
 * a command is interrupted at once. A thread has limits of memory and time; one that passes them is
 * ended, and only its own estimate fails. Tasks beyond `most` wait in the order in which they came.
 * Idle threads do not keep the process alive.
 *
 * @example
 * const threads = estimateThreads({ program, most: 2 });
 * await estimate(request, { ...machine, work: threads.work });
 */
export function estimateThreads(options: EstimateThreadsOptions): EstimateThreads {
  const { program, most } = options;
  const { timeoutSeconds = usualTimeoutSeconds, heapMebibytes = usualHeapMebibytes } = options;
  const idle: Worker[] = [];
  const all = new Set<Worker>();
  const waiting: Job[] = [];
  const closing = new AbortController();

  function start(): Worker {
    const worker = new Worker(program, {
      resourceLimits: { maxOldGenerationSizeMb: heapMebibytes },
      // What a test runner or a debugger gave this process is not for its threads.
      execArgv: [],
      workerData: { mayStartAnother: options.inPairs === true },
    });
    all.add(worker);
    worker.once('exit', () => {
      all.delete(worker);
      const at = idle.indexOf(worker);
      if (at !== -1) idle.splice(at, 1);
    });
    // Each job listens itself; without a listener a late error would end the process.
    worker.on('error', () => {});
    return worker;
  }

  function next(): void {
    while (waiting.length > 0 && (idle.length > 0 || all.size < most)) {
      const job = waiting.shift();
      if (job === undefined) return;
      if (job.signal?.aborted === true) job.reject(interrupted());
      else run(job, idle.pop() ?? start());
    }
  }

  function run({ task, signal, resolve, reject }: Job, worker: Worker): void {
    const limit = { seconds: timeoutSeconds, clockSeconds: timeoutSeconds * clockTimes };
    const stopLimit = onWorkLimit(limit, processSeconds, () => end(tooLong(limit)));
    const onAnswer = (answer: ThreadAnswer) => {
      over();
      worker.unref();
      idle.push(worker);
      try {
        resolve(readAnswer(answer));
      } catch (error) {
        reject(error);
      }
      next();
    };
    const onError = (error: Error) => end(outOfHeap(error) ? tooMuch(heapMebibytes) : error);
    const onExit = () => end(new Error('The thread of an estimate ended.'));
    const over = () => {
      stopLimit();
      for (const forget of stops) forget();
      worker.off('message', onAnswer).off('error', onError).off('exit', onExit);
    };
    /** JavaScript cannot be interrupted from outside, its thread can. */
    const end = (error: unknown) => {
      over();
      reject(error);
      all.delete(worker);
      void worker.terminate();
      next();
    };
    const stops = [signal, closing.signal].map((one) => onAbort(one, () => end(interrupted())));
    worker.on('message', onAnswer).on('error', onError).on('exit', onExit);
    worker.ref();
    // A second list: what would be handed over instead of copied. Nothing is.
    worker.postMessage(task, []);
  }

  function work(task: EstimateTask, signal?: AbortSignal): Promise<Estimate>;
  function work(task: ReadTask, signal?: AbortSignal): Promise<ReadSource>;
  function work(task: LeastCapacityTask, signal?: AbortSignal): Promise<LeastCapacity>;
  function work(task: AnyTask, signal?: AbortSignal): Promise<AnyAnswer> {
    let forget: (() => void) | undefined;
    const answer = new Promise<AnyAnswer>((resolve, reject) => {
      if (signal?.aborted === true || closing.signal.aborted) return reject(interrupted());
      const job = { task, signal, resolve, reject };
      waiting.push(job);
      forget = onAbort(signal, () => leave(job));
      next();
    });
    return answer.finally(() => forget?.());
  }

  return {
    work,
    async close() {
      for (const { reject } of waiting.splice(0)) reject(interrupted());
      const living = [...all];
      closing.abort();
      await Promise.all(living.map((worker) => worker.terminate()));
    },
  };

  /** A client that leaves while it waits makes room at once. */
  function leave(job: Job): void {
    const at = waiting.indexOf(job);
    if (at === -1) return;
    waiting.splice(at, 1);
    job.reject(interrupted());
  }
}

function outOfHeap(error: Error): boolean {
  return Reflect.get(error, 'code') === 'ERR_WORKER_OUT_OF_MEMORY';
}

function interrupted(): Failure {
  return new Failure({
    kind: 'interrupted',
    code: 'interrupted',
    fact: 'The estimate was interrupted.',
    next: 'Run it again.',
  });
}

function tooLong({ seconds, clockSeconds }: WorkLimit): Failure {
  return new Failure({
    kind: 'input',
    code: 'estimate-timeout',
    fact: `The estimate took more than ${seconds} s of a processor, or ${clockSeconds} s by the clock, and was ended.`,
    next: 'Check the sizes and the number of layers; if the machine is busy, try again when it is not.',
  });
}

function tooMuch(mebibytes: number): Failure {
  return new Failure({
    kind: 'input',
    code: 'estimate-memory-limit',
    fact: `The estimate took more than ${mebibytes} MiB of this process and was ended.`,
    next: 'Check the sizes and the layers in the config.',
  });
}

/** What a thread sends back. Classes do not survive the way, so errors are sent as their parts. */
export type ThreadAnswer =
  | { readonly kind: 'done'; readonly answer: AnyAnswer }
  | {
      readonly kind: 'failure';
      readonly failure: {
        readonly kind: FailureKind;
        readonly code: string;
        readonly fact: string;
        readonly next: string;
      };
    }
  | { readonly kind: 'no-formula'; readonly what: string }
  | { readonly kind: 'error'; readonly message: string; readonly stack: string };

export function answerOfError(error: unknown): ThreadAnswer {
  if (error instanceof NoFormula) return { kind: 'no-formula', what: error.what };
  if (error instanceof Failure) {
    const { kind, code, fact, next } = error;
    return { kind: 'failure', failure: { kind, code, fact, next } };
  }
  const { message, stack = '' } = error instanceof Error ? error : new Error(String(error));
  return { kind: 'error', message, stack };
}

/** What was asked for, or the error as it was thrown in the thread. */
export function readAnswer(answer: ThreadAnswer): AnyAnswer {
  if (answer.kind === 'done') return answer.answer;
  if (answer.kind === 'failure') throw new Failure(answer.failure);
  if (answer.kind === 'no-formula') throw new NoFormula(answer.what);
  throw Object.assign(new Error(answer.message), { stack: answer.stack });
}

const acts = new WeakMap<AbortSignal, Set<() => void>>();

/**
 * Does something when a signal aborts; answers how to forget it. Each signal has one listener of ours,
 * however many tasks wait for it: a plan asks for dozens of estimates with one signal.
 */
export function onAbort(signal: AbortSignal | undefined, act: () => void): () => void {
  if (signal === undefined) return () => {};
  const known = acts.get(signal) ?? listen(signal);
  const once = (): void => act();
  known.add(once);
  return () => void known.delete(once);
}

function listen(signal: AbortSignal): Set<() => void> {
  const known = new Set<() => void>();
  acts.set(signal, known);
  signal.addEventListener(
    'abort',
    () => {
      for (const act of known) act();
    },
    { once: true },
  );
  return known;
}

/** Beside the command in the build; the sources, which tests run, have no program for a thread. */
const program = new URL('./estimate-thread.js', import.meta.url);
/** As many as a server answers at once; more would only share the same cores. */
const maxThreads = 4;

/**
 * Threads for estimates, one core left for the process that started them; with `allCores` none, for
 * those that only wait for the answer.
 *
 * @example
 * const { work, close } = openEstimateWork();
 */
export function openEstimateWork({ allCores = false } = {}): EstimateThreads {
  if (!existsSync(program)) return { work: inThisThread, close: () => Promise.resolve() };
  const cores = availableParallelism();
  const most = Math.max(1, Math.min(maxThreads, cores - 1));
  return estimateThreads({ program, most, inPairs: allCores && cores > 1 });
}
