import type { Command } from 'commander';
import type { Environment } from '../config/environment.js';
import { versioned } from '../files/document-version.js';

/** What a command may touch of the process it runs in; tests and `main` hand it in. */
export interface CliIo {
  readonly environment: Environment;
  /** The current folder; paths that people write start there. */
  readonly folder: string;
  /** The answer, and nothing else, goes here. */
  readonly stdout: Output;
  /** Logs, progress, alerts and errors. */
  readonly stderr: Output;
}

export interface Output {
  /** A person looks at it, and it can be redrawn. */
  readonly isTerminal: boolean;
  readonly colour: boolean;
  /** How wide it is now; where it is no terminal, wide enough to cut little. */
  columns(): number;
  /** Aborts when what is written gets nowhere: the reader is gone, or the disk is full. */
  readonly closed: AbortSignal;
  /** Why it closed, when that is an error and not a reader that left. */
  readonly failure: Error | undefined;
  write(text: string): void;
  /** When a slow reader has room for more; or the reader is gone, or `signal` says to stop. */
  drained(signal: AbortSignal): Promise<void>;
}

/** What a stream must have; `process.stdout` does. */
interface OutputStream {
  readonly isTTY?: boolean;
  readonly columns?: number;
  /** It holds more than it should; the event `drain` tells when it no longer does. */
  readonly writableNeedDrain?: boolean;
  write(text: string): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  once(event: 'drain', listener: () => void): unknown;
  off(event: 'drain', listener: () => void): unknown;
}

/** The reader of a pipe left; the terminal was closed. Neither is an error of ours. */
const readerLeft: ReadonlySet<string> = new Set(['EPIPE', 'EIO', 'ENOTCONN']);

/**
 * A stream that may close at any time (`| head -1` does it): what is written afterwards is dropped
 * in silence, and `closed` says to stop.
 */
export function outputOf(stream: OutputStream, environment: Environment): Output {
  const closed = new AbortController();
  let failure: Error | undefined;
  stream.on('error', (error) => {
    if (!('code' in error) || !readerLeft.has(String(error.code))) failure ??= error;
    closed.abort();
  });
  const isTerminal = stream.isTTY === true && environment['TERM'] !== 'dumb';
  return {
    isTerminal,
    colour: isTerminal && !environment['NO_COLOR'],
    columns: () => stream.columns || 120,
    closed: closed.signal,
    get failure() {
      return failure;
    },
    write(text) {
      if (!closed.signal.aborted) stream.write(text);
    },
    drained(signal) {
      const either = [signal, closed.signal];
      if (!stream.writableNeedDrain || either.some(({ aborted }) => aborted)) {
        return Promise.resolve();
      }
      return new Promise((resolve) => {
        const end = () => {
          stream.off('drain', end);
          for (const one of either) one.removeEventListener('abort', end);
          resolve();
        };
        stream.once('drain', end);
        for (const one of either) one.addEventListener('abort', end);
      });
    },
  };
}

/** The process that runs us. */
export function processIo(): CliIo {
  return {
    environment: process.env,
    // Asked for when it is needed: it may have been removed, and not every command needs it.
    get folder() {
      return process.cwd();
    },
    stdout: outputOf(process.stdout, process.env),
    stderr: outputOf(process.stderr, process.env),
  };
}

/**
 * The one JSON document of `--json`, with its version. Text from outside may be in it, and a terminal may be behind it:
 * what a terminal could act on is escaped, which leaves the document the same.
 */
export function printJson(io: CliIo, document: object, indent = 2): void {
  const json = JSON.stringify(versioned(document), undefined, indent);
  io.stdout.write(`${json.replaceAll(/[\u007f-\u009f\p{Cf}\u2028\u2029]/gu, escaped)}\n`);
}

function escaped(character: string): string {
  return Array.from({ length: character.length }, (_, at) => {
    const unit = character.charCodeAt(at).toString(16).padStart(4, '0');
    return `\\u${unit}`;
  }).join('');
}

/** The same of stderr. */
export function errorStyle(io: CliIo): { colour: boolean; unicode: boolean } {
  return { ...textStyle(io), colour: io.stderr.colour };
}

/** How text on stdout may look: colours where a person sees them, plain letters where they must. */
export function textStyle({ stdout, environment }: Pick<CliIo, 'stdout' | 'environment'>): {
  colour: boolean;
  unicode: boolean;
} {
  const locale =
    environment['LC_ALL'] || environment['LC_CTYPE'] || environment['LANG'] || 'C.UTF-8';
  return { colour: stdout.colour, unicode: /utf-?8/i.test(locale) };
}

/** What a command's file exports: it adds options and an action to the command it is given. */
export interface CommandModule {
  define(command: Command, context: CommandContext): void;
}

export interface CommandContext {
  readonly io: CliIo;
  readonly version: string;
  /** Wraps an action so that the number it answers becomes the exit code. */
  action<Arguments extends readonly unknown[]>(
    act: (...given: Arguments) => Promise<number>,
  ): (...given: Arguments) => Promise<void>;
}
