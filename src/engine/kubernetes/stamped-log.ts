/** The time before each line, and the space after it. */
const stamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d) $/;
/** A line without a space in its first 40 bytes does not begin with a time. */
const longestStamp = 40;
const newline = 0x0a;
const space = 0x20;

/**
 * What `kubectl logs --timestamps` prints, without the times. It knows where it is, so that it can be
 * read on after a broken connection: kubectl can begin at a second only, and prints lines of that
 * second again.
 *
 * @example
 * new StampedLog((bytes) => {}).take(Buffer.from('2026-11-16T10:00:00.000000001Z step 1\n')); // 'step 1\n'
 */
export class StampedLog {
  readonly #write: (bytes: Buffer) => void;
  /** Of the last line that was seen; empty before the first. */
  #last = '';
  /** How many lines have that stamp, and how many bytes of the last of them were written. */
  #lines = 0;
  #bytes = 0;
  /** What stands at the beginning of a line, until it is known whether it is a stamp. */
  #head: Buffer | undefined = Buffer.alloc(0);
  /** Lines with the last stamp that come again, and how much of this line was written before. */
  #again = 0;
  #skip = 0;

  constructor(write: (bytes: Buffer) => void) {
    this.#write = write;
  }

  /** Where kubectl should begin; empty where it should begin with the log. */
  get since(): string {
    return this.#last;
  }

  /** A new connection follows, which begins with the lines of the last second. */
  reconnect(): void {
    this.#head = Buffer.alloc(0);
    this.#again = this.#lines;
    this.#skip = 0;
  }

  take(chunk: Buffer): void {
    let rest = chunk;
    while (rest.length > 0) rest = this.#head === undefined ? this.#text(rest) : this.#stamp(rest);
  }

  /** Up to the end of the line; answers what comes after it. */
  #text(bytes: Buffer): Buffer {
    const end = bytes.indexOf(newline);
    const own = end === -1 ? bytes : bytes.subarray(0, end + 1);
    if (end !== -1) this.#head = Buffer.alloc(0);
    const fresh = own.subarray(Math.min(this.#skip, own.length));
    this.#skip -= own.length - fresh.length;
    this.#bytes += fresh.length;
    if (fresh.length > 0) this.#write(fresh);
    return bytes.subarray(own.length);
  }

  /** The beginning of a line; answers what comes after it. */
  #stamp(bytes: Buffer): Buffer {
    const before = this.#head ?? Buffer.alloc(0);
    const all = Buffer.concat([before, bytes.subarray(0, longestStamp)]);
    const end = all.indexOf(space);
    const isWhole = end !== -1 || all.length >= longestStamp || all.includes(newline);
    if (!isWhole) {
      this.#head = all;
      return Buffer.alloc(0);
    }
    const text = all.toString('latin1', 0, end + 1);
    this.#head = undefined;
    if (!stamp.test(text)) {
      // A word of kubectl itself has none, and is passed on.
      this.#skip = 0;
      return Buffer.concat([before, bytes]);
    }
    this.#beginLine(text.trimEnd());
    return bytes.subarray(end + 1 - before.length);
  }

  #beginLine(at: string): void {
    if (this.#again > 0 && at < this.#last) {
      this.#skip = Number.POSITIVE_INFINITY;
      return;
    }
    if (this.#again > 0 && at === this.#last) {
      this.#again -= 1;
      // The last of them may have been cut.
      this.#skip = this.#again > 0 ? Number.POSITIVE_INFINITY : this.#bytes;
      return;
    }
    this.#again = 0;
    this.#skip = 0;
    this.#lines = at === this.#last ? this.#lines + 1 : 1;
    this.#last = at;
    this.#bytes = 0;
  }
}
