import type { Failure } from '../../failure.js';
import type { ByteReader } from './byte-reader.js';

const quote = 0x22;
const backslash = 0x5c;
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
/** For texts of ASCII alone. */
const plainDecoder = new TextDecoder('latin1');

/** Values that are skipped nest at most this deep; JSON headers nest three. */
const skippedDepth = 16;

/** How many such values there may be: a few lines that a tool has added, for each tensor at most. */
const skippedValues = 500_000;

/**
 * Reads JSON one token at a time. A header may have 100 MB, of which `JSON.parse` would make
 * several gigabytes of objects when it is written to that end; here only what is asked for is kept.
 */
export class JsonReader {
  readonly #bytes: ByteReader;
  readonly #fail: (what: string) => Failure;
  readonly #textLimit: number;
  #text: Uint8Array;
  #skipped = 0;

  constructor(bytes: ByteReader, textLimit: number, fail: (what: string) => Failure) {
    this.#bytes = bytes;
    this.#textLimit = textLimit;
    this.#text = new Uint8Array(256);
    this.#fail = fail;
  }

  /** Calls `read` for each key, which must read the value. */
  object(read: (key: string) => void): void {
    this.#expect('{');
    if (this.#take('}')) return;
    do {
      this.#space();
      const key = this.text();
      this.#expect(':');
      read(key);
    } while (this.#take(','));
    this.#expect('}');
  }

  /** Calls `read` for each element, which must read it. */
  list(read: () => void): void {
    this.#expect('[');
    if (this.#take(']')) return;
    do read();
    while (this.#take(','));
    this.#expect(']');
  }

  /** A text of at most the limit's bytes. */
  text(): string {
    this.#expect('"');
    let length = 0;
    let plain = true;
    for (let byte = this.#bytes.next(); byte !== quote; byte = this.#bytes.next()) {
      length = this.#keep(this.#inText(byte), length);
      if (byte >= 0x80) plain = false;
      if (byte === backslash) {
        plain = false;
        length = this.#keep(this.#inText(this.#bytes.next()), length);
      }
    }
    if (plain) return plainDecoder.decode(this.#text.subarray(0, length));
    return this.#decode(this.#text.subarray(0, length));
  }

  /** A whole number of 0 or more. */
  count(): number {
    this.#space();
    let value = 0;
    let digits = 0;
    for (let byte = this.#bytes.peek(); isDigit(byte); byte = this.#bytes.peek()) {
      // In brackets, or the sum in between could pass what a number holds exactly.
      value = value * 10 + (byte - 0x30);
      digits += 1;
      this.#bytes.next();
      if (value > Number.MAX_SAFE_INTEGER) throw this.#bad('a number that is too large');
    }
    if (digits === 0) throw this.#bad(`${this.#shown(this.#bytes.peek())} in place of a number`);
    return value;
  }

  /** Passes over a value, whatever it is. */
  skip(depth = 0): void {
    if (depth > skippedDepth) throw this.#bad('a value that nests too deep');
    this.#skipped += 1;
    if (this.#skipped > skippedValues) throw this.#bad('too many values of no meaning here');
    this.#space();
    const byte = this.#bytes.peek();
    if (byte === quote) this.#skipText();
    else if (byte === 0x7b) this.#skipObject(() => this.skip(depth + 1));
    else if (byte === 0x5b) this.list(() => this.skip(depth + 1));
    else this.#skipPlain();
  }

  /** Passes over an object whose values are all texts, however many there are. */
  skipTexts(): void {
    this.#skipObject(() => {
      this.#space();
      this.#skipText();
    });
  }

  /** Nothing may follow but blanks. */
  end(): void {
    this.#space();
    if (this.#bytes.peek() >= 0)
      throw this.#bad(`${this.#shown(this.#bytes.peek())} after the end`);
  }

  #skipObject(skipValue: () => void): void {
    this.#expect('{');
    if (this.#take('}')) return;
    do {
      this.#space();
      this.#skipText();
      this.#expect(':');
      skipValue();
    } while (this.#take(','));
    this.#expect('}');
  }

  #skipText(): void {
    this.#expect('"');
    for (let byte = this.#bytes.next(); byte !== quote; byte = this.#bytes.next()) {
      if (this.#inText(byte) === backslash) this.#inText(this.#bytes.next());
    }
  }

  /** A number, true, false or null. */
  #skipPlain(): void {
    let text = '';
    for (let byte = this.#bytes.peek(); isPlain(byte); byte = this.#bytes.peek()) {
      text += String.fromCharCode(this.#bytes.next());
      if (text.length > 64) throw this.#bad('a number that is too long');
    }
    if (/^(?:true|false|null|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)$/.test(text)) return;
    throw this.#bad(text === '' ? this.#shown(this.#bytes.peek()) : `"${text}"`);
  }

  #keep(byte: number, length: number): number {
    if (length === this.#textLimit) {
      throw this.#bad(`a text of more than ${this.#textLimit} bytes`);
    }
    if (length === this.#text.length) {
      const longer = new Uint8Array(2 * length);
      longer.set(this.#text);
      this.#text = longer;
    }
    this.#text[length] = byte;
    return length + 1;
  }

  #inText(byte: number): number {
    if (byte < 0) throw this.#bad('its end, within a text');
    if (byte < 0x20) throw this.#bad('a control character within a text');
    return byte;
  }

  #decode(bytes: Uint8Array): string {
    let text: string;
    try {
      text = decoder.decode(bytes);
    } catch {
      throw this.#bad('a text that is not UTF-8');
    }
    try {
      const parsed: unknown = JSON.parse(`"${text}"`);
      return String(parsed);
    } catch {
      throw this.#bad('a text with an escape that is not JSON');
    }
  }

  #expect(character: string): void {
    if (this.#take(character)) return;
    throw this.#bad(`${this.#shown(this.#bytes.peek())} in place of ${character}`);
  }

  #take(character: string): boolean {
    this.#space();
    if (this.#bytes.peek() !== character.charCodeAt(0)) return false;
    this.#bytes.next();
    return true;
  }

  #space(): void {
    for (let byte = this.#bytes.peek(); isSpace(byte); byte = this.#bytes.peek())
      this.#bytes.next();
  }

  #shown(byte: number): string {
    if (byte < 0) return 'its end';
    return byte > 0x20 && byte < 0x7f ? `"${String.fromCharCode(byte)}"` : `byte ${byte}`;
  }

  #bad(what: string): Failure {
    return this.#fail(`at byte ${this.#bytes.position} it has ${what}`);
  }
}

function isSpace(byte: number): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** Letters, digits and signs: what numbers and words are made of. */
function isPlain(byte: number): boolean {
  return isDigit(byte) || (byte >= 0x61 && byte <= 0x7a) || byte === 0x45 || isSign(byte);
}

function isSign(byte: number): boolean {
  return byte === 0x2b || byte === 0x2d || byte === 0x2e;
}
