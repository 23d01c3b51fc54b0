import { StringDecoder } from 'node:string_decoder';
import type { CliIo } from '../io.js';

/** Events of a terminal, from the user or the system. */
export interface TerminalEvents {
  /** Raw input of keyboard and mouse. */
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

/** A terminal to draw on; `process.stdout` with `process.stdin` is one. */
interface Terminal {
  write(text: string): void;
  /** Columns and rows now. */
  size(): { readonly columns: number; readonly rows: number };
  /** Keys come one by one and unshown while it is on; false where there is no keyboard. */
  setRaw(on: boolean): void;
}

// Alternate screen, no cursor, no wrapping (a line too long while resizing must not push others).
const enter = '\u001B[?1049h\u001B[?25l\u001B[?7l\u001B[2J';
const leave = '\u001B[0m\u001B[?7h\u001B[?25h\u001B[?1049l';
// Clicks and the wheel, as numbers without an upper limit.
const mouseOn = '\u001B[?1000h\u001B[?1006h';
const mouseOff = '\u001B[?1006l\u001B[?1000l';

export interface Screen {
  readonly entered: boolean;
  enter(): void;
  /** Safe to call any number of times, in every way out. */
  leave(): void;
  /** Whether clicks are told; the terminal is given back without, in any case. */
  mouse(on: boolean): void;
  /** Writes only the lines that changed since the last drawing. */
  draw(lines: readonly string[]): void;
  /** The terminal no longer shows what was drawn: draw everything next time. */
  forget(): void;
}

/** A whole terminal that is drawn line by line and given back as it was. */
export function openScreen(terminal: Terminal): Screen {
  let entered = false;
  let hasMouse = false;
  let shown: readonly string[] = [];
  return {
    get entered() {
      return entered;
    },
    enter() {
      terminal.setRaw(true);
      terminal.write(enter);
      entered = true;
      shown = [];
    },
    leave() {
      if (!entered) return;
      entered = false;
      terminal.write(hasMouse ? mouseOff + leave : leave);
      hasMouse = false;
      terminal.setRaw(false);
    },
    mouse(on) {
      if (!entered || on === hasMouse) return;
      hasMouse = on;
      terminal.write(on ? mouseOn : mouseOff);
    },
    draw(lines) {
      if (!entered) return;
      const text = changes(shown, lines.slice(0, terminal.size().rows));
      shown = lines;
      if (text !== '') terminal.write(text);
    },
    forget() {
      if (entered) terminal.write('\u001B[2J');
      shown = [];
    },
  };
}

/** The escape sequences that turn one picture into the next. */
export function changes(before: readonly string[], after: readonly string[]): string {
  let text = '';
  for (let row = 0; row < Math.max(before.length, after.length); row++) {
    const line = after[row] ?? '';
    if (line === before[row] || (line === '' && before[row] === undefined)) continue;
    // Wiped before, not after: behind a full line the cursor still stands on its last letter.
    text += `\u001B[${row + 1};1H\u001B[0m\u001B[K${line}`;
  }
  return text;
}
