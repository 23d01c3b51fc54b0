import { cutText } from '../../report/text/text-width.js';
import type { Output } from '../io.js';

/** One line that is redrawn on a terminal while something goes on, and lines that stay above it. */
export interface Progress {
  /** Shows only on a terminal; a log file wants no thousand copies of it. */
  show(text: string): void;
  /** Printed for good, terminal or not. */
  line(text: string): void;
  end(): void;
}

export function openProgress(output: Output): Progress {
  let shown = '';
  const wipe = () => {
    if (shown !== '') output.write('\r\u001B[K');
    shown = '';
  };
  return {
    show(text) {
      if (!output.isTerminal || text === shown) return;
      // A line as wide as the terminal would wrap, and then not be redrawn in place.
      const cut = cutText(text, output.columns() - 1, '~');
      output.write(`\r${cut}\u001B[K`);
      shown = cut;
    },
    line(text) {
      wipe();
      output.write(`${text}\n`);
    },
    end: wipe,
  };
}
