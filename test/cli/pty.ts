import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { StringDecoder } from 'node:string_decoder';
import { fileURLToPath } from 'node:url';
import { cleanEnvironment } from './command.js';

const driver = fileURLToPath(new URL('pty.py', import.meta.url));

/** How the terminal was when the process ended. */
export interface PtyEnd {
  readonly output: string;
  /** Negative when a signal ended it. */
  readonly exitCode: number;
  /** Lines are edited and shown again, as a shell expects; undefined when the terminal is gone. */
  readonly cooked: boolean | undefined;
}

export interface Pty {
  /** Everything written to the terminal so far. */
  output(): string;
  /** Resolves when the output since the last call of `mark` holds `text`. */
  shows(text: string | RegExp): Promise<void>;
  mark(): void;
  send(text: string): void;
  resize(columns: number, rows: number): void;
  signal(number: number): void;
  hangUp(): void;
  readonly end: Promise<PtyEnd>;
}

/** A command in a real pseudo-terminal; python3 opens it, because Node cannot. */
export function openPty(
  argv: readonly string[],
  options: { columns: number; rows: number; cwd: string; environment?: Record<string, string> },
): Pty {
  const child = spawn('python3', [driver, String(options.columns), String(options.rows), ...argv], {
    cwd: options.cwd,
    env: cleanEnvironment({ TERM: 'xterm-256color', ...options.environment }),
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  // A letter may be cut in two between one chunk and the next.
  const decoder = new StringDecoder('utf8');
  let output = '';
  let marked = 0;
  let cooked: boolean | undefined;
  const waiting = new Set<() => void>();
  const say = (line: string) => child.stdin.write(`${line}\n`);
  const end = new Promise<PtyEnd>((resolve, reject) => {
    child.on('error', reject);
    child.stdin.on('error', reject);
    createInterface({ input: child.stdout }).on('line', (line) => {
      const [word, first = '', second = ''] = line.split(' ');
      if (word === 'out') output += decoder.write(Buffer.from(first, 'hex'));
      if (word === 'modes') cooked = first === '1' && second === '1';
      if (word === 'exit') resolve({ output, exitCode: Number(first), cooked });
      for (const look of waiting) look();
    });
  });
  return {
    output: () => output,
    mark() {
      marked = output.length;
    },
    shows(text) {
      return new Promise((resolve) => {
        const look = () => {
          const since = output.slice(marked);
          if (typeof text === 'string' ? !since.includes(text) : !text.test(since)) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
        look();
      });
    },
    send: (text) => say(`send ${Buffer.from(text).toString('hex')}`),
    resize: (columns, rows) => say(`resize ${columns} ${rows}`),
    signal: (number) => say(`signal ${number}`),
    hangUp: () => say('hangup'),
    end,
  };
}
