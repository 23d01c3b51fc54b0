/** What the screen is drawn on; `process.stdout` with `process.stdin` is one. */
export interface Terminal {
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
