import { stripVTControlCharacters } from 'node:util';

/** The end of a traceback, and what was printed before it. */
const maxLines = 12;
const maxBytes = 8 * 1024;
const longestLine = 400;

/** The end of what a program printed, at a cost that does not grow with its output. */
export class LastLines {
  #tail = Buffer.alloc(0);

  take(chunk: Uint8Array): void {
    const joined = Buffer.concat([this.#tail, chunk.subarray(-maxBytes)]);
    this.#tail = Buffer.from(joined.subarray(-maxBytes));
  }

  /** Without colours; of a progress bar that was drawn over and over only its last state. */
  get lines(): readonly string[] {
    return stripVTControlCharacters(this.#tail.toString('utf8'))
      .split('\n')
      .map((line) => (line.replace(/\r+$/, '').split('\r').at(-1) ?? '').trimEnd())
      .filter((line) => line !== '')
      .slice(-maxLines)
      .map((line) => line.slice(0, longestLine));
  }
}
