/** Colours, and what progress bars move: within a line, up a line, to its start, clearing it. */
const harmless = /^\[[\d;]{0,32}[mKABCDG]$/;
const escape = '\u001b';
/** Longer than any sequence that is let through; what is longer is not one. */
const longestSequence = 40;

/**
 * What a program printed, made fit for a terminal of somebody else. Colours and progress bars stay.
 * Sequences that set the clipboard, the title or the keyboard, ask the terminal for an answer, or
 * switch its screen are left out. It goes on over the pieces in which the text comes.
 *
 * @example
 * const filter = new TerminalFilter();
 * filter.take('\u001b[32mgreen\u001b[0m \u001b]52;c;ZXZpbA==\u0007'); // '\u001b[32mgreen\u001b[0m '
 */
export class TerminalFilter {
  /** A sequence that has begun; empty between two. */
  #sequence = '';
  /** Inside of a string for the terminal (OSC, DCS, APC, PM, SOS): all of it is left out. */
  #inString = false;

  take(text: string): string {
    let shown = '';
    for (const letter of text) {
      if (this.#inString) this.#skip(letter);
      else if (this.#sequence !== '') shown += this.#goOn(letter);
      else if (letter === escape) this.#sequence = letter;
      else if (!isControl(letter)) shown += letter;
    }
    return shown;
  }

  #skip(letter: string): void {
    const isEnd = letter === '\u0007' || (this.#sequence === escape && letter === '\\');
    this.#sequence = letter === escape ? letter : '';
    if (!isEnd) return;
    this.#inString = false;
    this.#sequence = '';
  }

  /** What becomes of the letter after an escape: the whole sequence where it is harmless. */
  #goOn(letter: string): string {
    if (this.#sequence === escape && ']PX^_'.includes(letter)) {
      this.#inString = true;
      this.#sequence = '';
      return '';
    }
    const sequence = this.#sequence + letter;
    const rest = sequence.slice(escape.length);
    const isOpen = /^\[[ -?]*$/.test(rest) && sequence.length < longestSequence;
    this.#sequence = isOpen ? sequence : '';
    if (harmless.test(rest)) return sequence;
    // A line must not be swallowed by a sequence that was never finished.
    return !isOpen && letter === '\n' ? letter : '';
  }
}

/** All but tab, line feed, carriage return and backspace; those of eight bits begin sequences, too. */
function isControl(letter: string): boolean {
  const code = letter.codePointAt(0) ?? 0;
  if (code >= 0x80) return code < 0xa0;
  return code < 0x20 ? !'\t\n\r\b'.includes(letter) : code === 0x7f;
}
