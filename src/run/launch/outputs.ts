import { fstatSync, write } from 'node:fs';
import { isatty } from 'node:tty';
import { isDiskFull } from '../../files/system-errors.js';

/** One of our own outputs, as bytes. */
export interface RawOutput {
  readonly fd: number;
  readonly isTerminal: boolean;
  /** How large it is now; undefined where it is no terminal. */
  size(): { readonly columns: number; readonly rows: number } | undefined;
  /** Only the log of a job has it: told of bytes that the kernel moved there. */
  readonly moved?: (bytes: Uint8Array) => void;
  /** Only the log of a job has it: says in the log that something is missing, if it is and there is room. */
  readonly noteGap?: () => Promise<void>;
  /** Resolves when the bytes are gone; rejects when the reader is gone. */
  write(bytes: Uint8Array): Promise<void>;
}

/** Which of the program's outputs share a way to us. */
export interface OutputPlan {
  readonly name: 'stdout' | 'stderr' | 'both';
  readonly to: RawOutput;
  readonly as: 'terminal' | 'pipe';
}

/**
 * How the program's output gets to ours: one way for both where ours are one (a terminal, `2>&1`),
 * so that the order of what it prints stays as it was.
 */
export function planOutputs(options: {
  readonly stdout: RawOutput;
  readonly stderr: RawOutput;
  readonly areOne: boolean;
  /** With `--json` stdout is for the document. */
  readonly keepStdoutFree: boolean;
}): readonly OutputPlan[] {
  const { stdout, stderr } = options;
  const as = (output: RawOutput) => (output.isTerminal ? 'terminal' : 'pipe');
  if (options.keepStdoutFree) return [{ name: 'both', to: stderr, as: as(stderr) }];
  const bothTerminals = stdout.isTerminal && stderr.isTerminal;
  if (options.areOne || bothTerminals) return [{ name: 'both', to: stdout, as: as(stdout) }];
  return [
    { name: 'stdout', to: stdout, as: as(stdout) },
    { name: 'stderr', to: stderr, as: as(stderr) },
  ];
}

/** One of our own outputs as bytes. Its end may not be ours: what follows a bar starts a line. */
interface OwnOutput extends RawOutput {
  /** Whether the last byte ended a line. */
  readonly atLineStart: boolean;
  /** Told of bytes that got there another way than by `write`. */
  arrived(bytes: Uint8Array): void;
}

/** Someone else made the output give up instead of wait; we wait. */
const fullMs = 5;

export function ownOutput(
  stream: NodeJS.WriteStream & { readonly fd: 1 | 2 },
  isTerminal = isatty(stream.fd),
): OwnOutput {
  let last = 10;
  return {
    fd: stream.fd,
    isTerminal,
    get atLineStart() {
      return last === 10;
    },
    size: () =>
      isTerminal ? { columns: stream.columns || 80, rows: stream.rows || 24 } : undefined,
    arrived(bytes) {
      last = bytes.at(-1) ?? last;
    },
    async write(bytes) {
      last = bytes.at(-1) ?? last;
      for (let at = 0; at < bytes.length; ) at += await writeSome(stream.fd, bytes.subarray(at));
    },
  };
}

/** The same output for those who ask about it; what is written goes nowhere. */
export function silent(output: RawOutput): RawOutput {
  return { ...output, write: () => Promise.resolve() };
}

const fullWords = '\nplimsoll: the disk was full: some of what was printed is missing here.\n';

/**
 * A job's log. A disk that is full must not end the program: what finds no room is left out, and a
 * line says so once there is some.
 */
export function sparing(log: OwnOutput): RawOutput {
  let isMissing = false;
  async function add(...pieces: readonly Uint8Array[]): Promise<void> {
    try {
      if (isMissing) await log.write(Buffer.from(fullWords));
      isMissing = false;
      for (const bytes of pieces) await log.write(bytes);
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      isMissing = true;
    }
  }
  return { ...log, moved: (bytes) => log.arrived(bytes), noteGap: add, write: add };
}

/** Through the thread pool: a reader that is slow must not hold up all else. */
function writeSome(fd: number, bytes: Uint8Array): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, bytes, 0, bytes.length, null, (error, count) => {
      if (error === null) resolve(count);
      else if (error.code === 'EAGAIN') setTimeout(() => resolve(0), fullMs);
      else reject(error);
    });
  });
}

/** Whether stdout and stderr are one: the same pipe or file, as after `2>&1`. */
export function areOneOutput(): boolean {
  const [one, other] = [fstatSync(1), fstatSync(2)];
  return one.dev === other.dev && one.ino === other.ino && one.rdev === other.rdev;
}
