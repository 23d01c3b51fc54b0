import { StringDecoder } from 'node:string_decoder';
import type { CliIo } from '../io.js';
import type { Terminal } from './screen.js';

/** What a person, or the system, does to a terminal. */
export interface TerminalEvents {
  /** What the keyboard and the mouse sent, as it came. */
  readonly input: (text: string) => void;
  readonly resize: () => void;
  /** Someone else asked us to stop for a while (kill -TSTP). */
  readonly suspend: () => void;
  /** We go on after a stop. */
  readonly resume: () => void;
  /** The terminal is closed. */
  readonly gone: () => void;
}

export interface ScreenTerminal extends Terminal {
  /** Answers how to end listening. */
  listen(events: TerminalEvents): () => void;
  /** Stops the whole job, as Ctrl-Z does; returns at once, the stop comes right after. */
  suspend(): void;
}

/** A stop that did not happen is noticed after this time. */
const suspendedMs = 250;

/** The terminal that this process runs in; keys come only where stdin is a terminal, too. */
export function openTerminal({ stdout }: CliIo): ScreenTerminal {
  const { stdin } = process;
  let events: TerminalEvents | undefined;
  let isSuspended = false;
  const resumed = () => {
    isSuspended = false;
    events?.resume();
  };
  const suspended = () => events?.suspend();
  return {
    write: (text) => stdout.write(text),
    size: () => ({ columns: process.stdout.columns || 80, rows: process.stdout.rows || 24 }),
    setRaw(on) {
      if (!stdin.isTTY) return;
      try {
        stdin.setRawMode(on);
      } catch {
        // The terminal is gone, and nothing is left to be set.
      }
    },
    listen(given) {
      events = given;
      // A letter may be cut in two between one piece and the next.
      const decoder = new StringDecoder('utf8');
      const input = (data: Buffer) => given.input(decoder.write(data));
      process.stdout.on('resize', given.resize);
      process.on('SIGCONT', resumed);
      process.on('SIGTSTP', suspended);
      if (stdin.isTTY) {
        stdin.on('data', input);
        stdin.on('end', given.gone);
        stdin.on('error', given.gone);
        stdin.resume();
      }
      return () => {
        events = undefined;
        process.stdout.off('resize', given.resize);
        process.off('SIGCONT', resumed);
        process.off('SIGTSTP', suspended);
        if (!stdin.isTTY) return;
        stdin.off('data', input);
        stdin.off('end', given.gone);
        // The listener for errors stays: one that comes late must not end the process.
        stdin.pause();
        stdin.unref();
      };
    },
    suspend() {
      // Without our listener the signal has its usual effect; to the whole group, as the terminal
      // does it, so that what started us (npm, a script) stops with us.
      process.off('SIGTSTP', suspended);
      isSuspended = true;
      process.kill(0, 'SIGTSTP');
      setTimeout(() => {
        process.on('SIGTSTP', suspended);
        // A group without a shell above it was never stopped, so nothing told us to go on.
        if (isSuspended) resumed();
      }, suspendedMs).unref();
    },
  };
}
