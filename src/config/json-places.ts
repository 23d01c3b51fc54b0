/** A place in a text; line and column count from 1, as in editors. */
export interface Place {
  readonly line: number;
  readonly column: number;
}

export type JsonPath = readonly (string | number)[];

export interface JsonWithPlaces {
  readonly value: unknown;
  /** Returns the place of the value at a path, or of the nearest value around it. */
  placeOf(path: JsonPath): Place;
  /** Returns the place of a member's key. */
  placeOfKey(path: JsonPath): Place;
}

/** The text is not JSON; says where. */
export class JsonSyntaxError extends Error {
  readonly place: Place;

  constructor(what: string, place: Place) {
    super(what);
    this.name = 'JsonSyntaxError';
    this.place = place;
  }
}

/** Ours has three levels; this many would be an attack on the stack, not a configuration. */
const maxDepth = 64;

/**
 * Reads JSON and remembers where each value stands, so that an error can name the place. Stricter
 * than `JSON.parse` in one thing: a key written twice is an error, because one of the two would be
 * lost in silence.
 *
 * @example
 * readJsonWithPlaces('{"a": [1, 2]}').placeOf(['a', 1]); // { line: 1, column: 11 }
 */
export function readJsonWithPlaces(text: string): JsonWithPlaces {
  const reader = new Reader(text);
  const value = reader.readDocument();
  return {
    value,
    placeOf(path) {
      for (let length = path.length; length > 0; length--) {
        const offset = reader.valueOffsets.get(pathKey(path.slice(0, length)));
        if (offset !== undefined) return placeAt(text, offset);
      }
      return placeAt(text, reader.valueOffsets.get(pathKey([])) ?? 0);
    },
    placeOfKey(path) {
      const offset = reader.keyOffsets.get(pathKey(path));
      return offset === undefined ? this.placeOf(path) : placeAt(text, offset);
    },
  };
}

function pathKey(path: JsonPath): string {
  return JSON.stringify(path);
}

function placeAt(text: string, offset: number): Place {
  const before = text.slice(0, offset);
  const lineStart = before.lastIndexOf('\n') + 1;
  return { line: before.split('\n').length, column: offset - lineStart + 1 };
}

class Reader {
  readonly valueOffsets = new Map<string, number>();
  readonly keyOffsets = new Map<string, number>();
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
    // Some editors write a byte order mark; it means nothing in UTF-8.
    if (text.startsWith('\uFEFF')) this.#at = 1;
  }

  readDocument(): unknown {
    const value = this.#readValue([]);
    this.#skipSpace();
    if (this.#at < this.#text.length) this.#fail(`there is ${this.#here()} after the end`);
    return value;
  }

  #readValue(path: JsonPath): unknown {
    if (path.length > maxDepth) this.#fail(`it nests deeper than ${maxDepth} levels`);
    this.#skipSpace();
    this.valueOffsets.set(pathKey(path), this.#at);
    const first = this.#text[this.#at];
    if (first === '{') return this.#readObject(path);
    if (first === '[') return this.#readArray(path);
    if (first === '"') return this.#readString();
    const literal = this.#match(/true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y);
    if (literal === undefined) this.#fail(`a value is missing before ${this.#here()}`);
    return JSON.parse(literal);
  }

  #readObject(path: JsonPath): object {
    const object = {};
    this.#at++;
    if (this.#take('}')) return object;
    do {
      this.#skipSpace();
      const keyOffset = this.#at;
      if (this.#text[this.#at] !== '"') {
        this.#fail(`a key in double quotes is missing before ${this.#here()}`);
      }
      const key = this.#readString();
      const memberPath = [...path, key];
      if (this.keyOffsets.has(pathKey(memberPath))) {
        this.#at = keyOffset;
        this.#fail(`the key ${JSON.stringify(key)} is written twice`);
      }
      this.keyOffsets.set(pathKey(memberPath), keyOffset);
      if (!this.#take(':')) this.#fail(`":" is missing before ${this.#here()}`);
      // defineProperty, because plain assignment to "__proto__" would set the prototype.
      Object.defineProperty(object, key, {
        value: this.#readValue(memberPath),
        enumerable: true,
        writable: true,
        configurable: true,
      });
    } while (this.#take(','));
    if (!this.#take('}')) this.#fail(`"," or "}" is missing before ${this.#here()}`);
    return object;
  }

  #readArray(path: JsonPath): unknown[] {
    const array: unknown[] = [];
    this.#at++;
    if (this.#take(']')) return array;
    do array.push(this.#readValue([...path, array.length]));
    while (this.#take(','));
    if (!this.#take(']')) this.#fail(`"," or "]" is missing before ${this.#here()}`);
    return array;
  }

  #readString(): string {
    const start = this.#at;
    const token = this.#match(/"(?:[^"\\]|\\.)*"/sy);
    if (token === undefined) this.#fail('the closing double quote of a text is missing');
    try {
      const value: unknown = JSON.parse(token);
      if (typeof value === 'string') return value;
    } catch {
      // Falls through to the one report below.
    }
    this.#at = start;
    return this.#fail('a text holds a line break, a control character or a bad escape');
  }

  /** Takes the character if it is the next one after white space. */
  #take(character: string): boolean {
    this.#skipSpace();
    if (this.#text[this.#at] !== character) return false;
    this.#at++;
    return true;
  }

  #skipSpace(): void {
    this.#match(/[ \t\r\n]*/y);
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text)?.[0];
    if (found !== undefined) this.#at += found.length;
    return found;
  }

  #here(): string {
    const character = String.fromCodePoint(this.#text.codePointAt(this.#at) ?? 0);
    return this.#at >= this.#text.length ? 'the end of the file' : JSON.stringify(character);
  }

  #fail(what: string): never {
    throw new JsonSyntaxError(what, placeAt(this.#text, this.#at));
  }
}
