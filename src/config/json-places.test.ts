import { isDeepStrictEqual } from 'node:util';
import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JsonSyntaxError, readJsonWithPlaces } from './json-places.js';

describe('readJsonWithPlaces', () => {
  it('reads every JSON document as JSON.parse does', () => {
    fc.assert(
      fc.property(
        fc.jsonValue({ maxDepth: 6 }),
        fc.constantFrom(undefined, 1, '\t'),
        (value, gap) => {
          const text = JSON.stringify(value, undefined, gap);
          expect(readJsonWithPlaces(text).value).toEqual(JSON.parse(text));
        },
      ),
    );
  });

  it('refuses what JSON.parse refuses, in damaged documents, and only throws its own error', () => {
    const damaged = fc
      .tuple(fc.json(), fc.nat(), fc.nat(3), fc.string({ maxLength: 3 }))
      .map(([text, at, drop, put]) => {
        const start = at % (text.length + 1);
        return text.slice(0, start) + put + text.slice(start + drop);
      });
    fc.assert(
      fc.property(damaged, (text) => {
        const parsed = attempt(() => JSON.parse(text));
        const read = attempt(() => readJsonWithPlaces(text).value);
        expect(agrees(parsed, read)).toBe(true);
      }),
      { numRuns: 2000 },
    );
  });

  it('knows where values and keys stand', () => {
    const read = readJsonWithPlaces('{\n  "a": {\n    "b": [1, "x"]\n  }\n}\n');
    expect(read.placeOf(['a', 'b', 1])).toEqual({ line: 3, column: 14 });
    expect(read.placeOfKey(['a', 'b'])).toEqual({ line: 3, column: 5 });
    expect(read.placeOf(['a', 'missing'])).toEqual({ line: 2, column: 8 });
    expect(read.placeOf([])).toEqual({ line: 1, column: 1 });
  });

  it.each([
    ['{"a": 1,}', 'a key in double quotes is missing before "}"', 1, 9],
    ['{"a": 1\n"b": 2}', '"," or "}" is missing before "\\""', 2, 1],
    ['{"a": nope}', 'a value is missing before "n"', 1, 7],
    ['{"a": 1', '"," or "}" is missing before the end of the file', 1, 8],
    ['{"a": 1, "a": 2}', 'the key "a" is written twice', 1, 10],
    ['{"a": "b', 'the closing double quote of a text is missing', 1, 7],
    ['[1] x', 'there is "x" after the end', 1, 5],
  ])('says what is wrong in %s and where', (text, what, line, column) => {
    const { error } = attempt(() => readJsonWithPlaces(text));
    expect(error).toMatchObject({ message: what, place: { line, column } });
  });

  it('keeps "__proto__" as a plain key', () => {
    const { value } = readJsonWithPlaces('{"__proto__": {"polluted": true}}');
    expect(Object.keys(Object(value))).toEqual(['__proto__']);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
  });

  it('refuses nesting that would exhaust the stack', () => {
    expect(() => readJsonWithPlaces('['.repeat(100_000))).toThrow(/nests deeper/);
  });
});

/** Refused by both, or the same for both; stricter than JSON.parse in two things only. */
function agrees(parsed: Attempt, read: Attempt): boolean {
  if (read.error === undefined) {
    return parsed.error === undefined && isDeepStrictEqual(read.value, parsed.value);
  }
  if (!(read.error instanceof JsonSyntaxError)) return false;
  return parsed.error !== undefined || /twice|deeper/.test(read.error.message);
}

interface Attempt {
  readonly value?: unknown;
  readonly error?: unknown;
}

function attempt(action: () => unknown): Attempt {
  try {
    return { value: action() };
  } catch (error) {
    return { error };
  }
}
