import { type ChildProcess, spawn } from 'node:child_process';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import type { PythonEnd } from './python-failure.js';

/** Something that runs one trace; undefined where it cannot, and a Python of its own must. */
export interface TraceRunner {
  run(trace: WarmTrace): Promise<PythonEnd | undefined>;
}

export interface WarmTrace {
  readonly args: readonly string[];
  /** A folder of this trace alone. */
  readonly scratch: string;
  readonly timeoutSeconds: number;
  readonly signal?: AbortSignal | undefined;
}

export interface WarmTracerOptions {
  /** Starts `python -m plimsoll_trace --warm`. */
  readonly program: string;
  readonly args: readonly string[];
  readonly environment: NodeJS.ProcessEnv;
  readonly folder: string;
  /** What would be different if the packages that it has loaded were changed. */
  readonly stamp: () => Promise<string>;
  /** It holds some 700 MB, and gives them back when it was not asked for this long. */
  readonly idleSeconds?: number | undefined;
  /** Then another takes its place. */
  readonly maxTraces?: number | undefined;
}

/** Of what a trace prints the end is enough. */
const keptBytes = 16_384;
const startSeconds = 120;
const longestLine = 4096;

/**
 * A Python that has torch and transformers loaded, and forks for each trace: the next one begins at
 * once. It is started when it is first needed, and again when it ended, was long idle, has answered
 * often, or when packages changed. Whatever goes wrong with it leaves the trace to a Python of its own.
 *
 * @example
 * const tracer = new WarmTracer({ program: 'python3', args, environment, folder, stamp });
 * await tracer.run({ args: ['--config=gpt2.json', '--output=trace.jsonl'], scratch, timeoutSeconds: 600 });
 */
export class WarmTracer implements TraceRunner {
  readonly #options: WarmTracerOptions;
  #current: WarmProcess | undefined;
  #stamp: string | undefined;
  /** With these packages it could not be started. */
  #failed: string | undefined;
  #closed = false;
  #idle: NodeJS.Timeout | undefined;

  constructor(options: WarmTracerOptions) {
    this.#options = options;
  }

  async run(trace: WarmTrace): Promise<PythonEnd | undefined> {
    // Processes are forked, which Windows cannot do and macOS does not survive.
    if (this.#closed || process.platform !== 'linux') return undefined;
    clearTimeout(this.#idle);
    const stamp = await this.#options.stamp();
    if (stamp === this.#failed) return undefined;
    const tracer = this.#processFor(stamp);
    if (!(await tracer.ready)) {
      if (!tracer.wasRetired) this.#failed = stamp;
      return undefined;
    }
    const end = await tracer.trace(trace);
    this.#restWhenIdle();
    return end;
  }

  /** Ends it with what it has begun. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#idle);
    this.#current?.end();
  }

  #processFor(stamp: string): WarmProcess {
    const { maxTraces = 200 } = this.#options;
    const found = this.#current;
    if (found !== undefined && stamp === this.#stamp && found.canTake(maxTraces)) return found;
    found?.retire();
    this.#stamp = stamp;
    this.#current = new WarmProcess(this.#options);
    return this.#current;
  }

  #restWhenIdle(): void {
    clearTimeout(this.#idle);
    const { idleSeconds = 600 } = this.#options;
    this.#idle = setTimeout(() => this.#current?.retire(), idleSeconds * 1000).unref();
  }
}

interface Asked {
  readonly trace: WarmTrace;
  readonly resolve: (end: PythonEnd | undefined) => void;
  pid?: number;
  timedOut?: boolean;
}

/** One such Python, from its start to its end. */
class WarmProcess {
  readonly ready: Promise<boolean>;
  readonly #child: ChildProcess;
  readonly #asked = new Map<number, Asked>();
  #setReady: (ready: boolean) => void = () => {};
  #next = 1;
  #ended = false;
  #retired = false;
  #rest = '';

  constructor({ program, args, environment, folder }: WarmTracerOptions) {
    this.ready = new Promise((resolve) => {
      this.#setReady = resolve;
    });
    this.#child = spawn(program, args, {
      cwd: folder,
      env: environment,
      stdio: ['pipe', 'pipe', 'ignore'],
      windowsHide: true,
    });
    const start = setTimeout(() => this.#child.kill('SIGKILL'), startSeconds * 1000);
    void this.ready.then(() => clearTimeout(start));
    this.#child.stdout?.setEncoding('utf8').on('data', (text: string) => this.#hear(text));
    // It may end while something is being written to it.
    this.#child.stdin?.on('error', () => {});
    this.#child.once('error', () => this.#over());
    this.#child.once('close', () => this.#over());
  }

  get wasRetired(): boolean {
    return this.#retired;
  }

  canTake(maxTraces: number): boolean {
    return !this.#ended && !this.#retired && this.#next <= maxTraces;
  }

  async trace(trace: WarmTrace): Promise<PythonEnd | undefined> {
    if (this.#ended || this.#retired) return undefined;
    const id = this.#next;
    this.#next += 1;
    const asked: Asked = { trace, resolve: () => {} };
    const kill = () => killGroup(asked.pid);
    const timer = setTimeout(() => {
      asked.timedOut = true;
      kill();
    }, trace.timeoutSeconds * 1000);
    trace.signal?.addEventListener('abort', kill, { once: true });
    try {
      return await new Promise((resolve) => {
        this.#asked.set(id, Object.assign(asked, { resolve }));
        const { args, scratch } = trace;
        const files = { stdout: join(scratch, 'stdout'), stderr: join(scratch, 'stderr') };
        const question = { id, args, ...files, temporary: scratch };
        this.#child.stdin?.write(`${JSON.stringify(question)}\n`);
      });
    } finally {
      clearTimeout(timer);
      trace.signal?.removeEventListener('abort', kill);
    }
  }

  /** Takes nothing more, and ends when what it has begun is over. */
  retire(): void {
    this.#retired = true;
    if (this.#asked.size === 0) this.end();
  }

  /** It ends with its input, and takes with it what still runs. */
  end(): void {
    this.#retired = true;
    this.#child.stdin?.end();
  }

  #hear(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = (lines.pop() ?? '').slice(0, longestLine);
    for (const line of lines) this.#takeLine(line);
  }

  #takeLine(line: string): void {
    const field = fieldsOf(line);
    if (field('ready') === true) this.#setReady(true);
    const id = Number(field('id'));
    const asked = this.#asked.get(id);
    if (asked === undefined) return;
    const pid = field('pid');
    if (typeof pid === 'number') {
      asked.pid = pid;
      // The client may have left before the process was there.
      if (asked.timedOut === true || asked.trace.signal?.aborted) killGroup(pid);
      return;
    }
    this.#asked.delete(id);
    if (this.#retired && this.#asked.size === 0) this.end();
    void endOf(asked, field('status'), field('signal')).then(asked.resolve);
  }

  #over(): void {
    this.#ended = true;
    this.#setReady(false);
    for (const { pid, resolve } of this.#asked.values()) {
      killGroup(pid);
      resolve(undefined);
    }
    this.#asked.clear();
  }
}

async function endOf(asked: Asked, status: unknown, by: unknown): Promise<PythonEnd> {
  const { scratch, timeoutSeconds } = asked.trace;
  if (asked.timedOut === true) return { timedOutSeconds: timeoutSeconds };
  return {
    code: typeof status === 'number' ? status : null,
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- named by Python's own table
    signal: typeof by === 'string' ? (by as NodeJS.Signals) : null,
    stdout: await tailOf(join(scratch, 'stdout')),
    stderr: await tailOf(join(scratch, 'stderr')),
  };
}

async function tailOf(path: string): Promise<string> {
  try {
    await using file = await open(path);
    const { size } = await file.stat();
    const start = Math.max(0, size - keptBytes);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(keptBytes), 0, keptBytes, start);
    return buffer.toString('utf8', 0, bytesRead);
  } catch {
    return '';
  }
}

function fieldsOf(line: string): (name: string) => unknown {
  try {
    const value: unknown = JSON.parse(line);
    return (name) => Reflect.get(Object(value), name);
  } catch {
    return () => undefined;
  }
}

function killGroup(pid: number | undefined): void {
  if (pid === undefined) return;
  try {
    process.kill(-pid, 'SIGKILL');
  } catch {
    // It ended in this very moment.
  }
}
