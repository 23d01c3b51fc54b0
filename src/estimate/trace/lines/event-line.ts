const zero = 48;
const comma = 44;
const quote = 34;
const closing = 93;
/** More digits are left to `JSON.parse`: a number of fewer is exact. */
const maxDigits = 15;
const opening = 91;
const a = 97;
const f = 102;
/** `["a",` and `["f",` */
const startLength = 5;

/**
 * A line of a trace as nearly all of them are: `["a",7,4096,3,1,"x"]`, a request on the first stream, or `["f",7]`, its
 * free. There are up to millions, and `JSON.parse` takes most of the time to read a trace.
 *
 * @example
 * const line = new EventLine();
 * line.read('["f",7]\n', 0, 7); // 'free'
 * line.id; // 7
 */
export class EventLine {
  id = 0;
  bytes = 0;
  op = 0;
  module = 0;
  /** The letter of its category. */
  letter = '';
  #text = '';
  #at = 0;

  /** Reads the text from `from` on, before `end`; nothing where it is written otherwise. */
  read(text: string, from: number, end: number): 'alloc' | 'free' | undefined {
    const kind = text.charCodeAt(from + 2);
    const isAlloc = kind === a;
    const starts =
      (isAlloc || kind === f) &&
      text.charCodeAt(from) === opening &&
      text.charCodeAt(from + 1) === quote &&
      text.charCodeAt(from + 3) === quote &&
      text.charCodeAt(from + 4) === comma;
    if (!starts) return undefined;
    this.#text = text;
    this.#at = from + startLength;
    this.id = this.#number();
    if (!isAlloc) return this.id >= 0 && this.#closesAt(end) ? 'free' : undefined;
    this.bytes = this.#next();
    this.op = this.#next();
    this.module = this.#next();
    const at = this.#at;
    const wellFormed =
      this.id >= 0 &&
      this.bytes >= 0 &&
      this.op >= 0 &&
      this.module >= 0 &&
      text.charCodeAt(at) === comma &&
      text.charCodeAt(at + 1) === quote &&
      text.charCodeAt(at + 3) === quote;
    if (!wellFormed) return undefined;
    this.letter = text.charAt(at + 2);
    this.#at = at + 4;
    return this.#closesAt(end) ? 'alloc' : undefined;
  }

  #closesAt(end: number): boolean {
    return this.#at === end - 1 && this.#text.charCodeAt(this.#at) === closing;
  }

  /** The number after a comma; -1 where there is none. */
  #next(): number {
    if (this.#text.charCodeAt(this.#at) !== comma) return -1;
    this.#at += 1;
    return this.#number();
  }

  /** A whole number as JSON writes it, without a sign; -1 where there is none. */
  #number(): number {
    const text = this.#text;
    const from = this.#at;
    let at = from;
    let value = 0;
    for (; ; at += 1) {
      const digit = text.charCodeAt(at) - zero;
      if (!(digit >= 0 && digit <= 9)) break;
      value = value * 10 + digit;
    }
    this.#at = at;
    const digits = at - from;
    const leadingZero = digits > 1 && text.charCodeAt(from) === zero;
    return digits === 0 || digits > maxDigits || leadingZero ? -1 : value;
  }
}
