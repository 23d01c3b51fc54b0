import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { memorySource } from '../files-for-tests.js';
import { ByteReader } from './byte-reader.js';
import { JsonReader } from './json-reader.js';

const fail = (what: string): Failure =>
  new Failure({ kind: 'input', code: 'bad', fact: what, next: '' });

function reader(text: string, textLimit = 1000): JsonReader {
  const bytes = Buffer.from(text);
  const source = new ByteReader(memorySource(bytes), 0, bytes.length, fail);
  return new JsonReader(source, textLimit, fail);
}

describe('JsonReader', () => {
  it('reads every text that JSON can write', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.string({ unit: 'grapheme' })), (text) => {
        expect(reader(JSON.stringify(text), 10_000).text()).toBe(text);
        expect(reader(` "${escapeAll(text)}"`, 100_000).text()).toBe(text);
      }),
    );
  });

  it('reads every exact count', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), (count) => {
        expect(reader(` ${count} `).count()).toBe(count);
      }),
    );
    expect(() => reader('9007199254740993').count()).toThrow('too large');
    expect(() => reader('-1').count()).toThrow('in place of a number');
  });

  it('passes over any value of JSON, and stops behind it', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 10 }), (json) => {
        const after = reader(`[${json} , 7 ]`);
        const counts: number[] = [];
        let first = true;
        after.list(() => {
          if (first) after.skip();
          else counts.push(after.count());
          first = false;
        });
        after.end();
        expect(counts).toEqual([7]);
      }),
    );
  });

  it('reads keys in their order', () => {
    const json = reader('{ "a" : 1,"b":2 } ');
    const found: [string, number][] = [];
    json.object((key) => found.push([key, json.count()]));
    json.end();
    expect(found).toEqual([
      ['a', 1],
      ['b', 2],
    ]);
  });

  it.each([
    ['a word that is none', 'nul', '"nul"'],
    ['a number that is none', '1.', '"1."'],
    ['a text without end', '"abc', 'its end, within a text'],
    ['a control character', '"a\u0001"', 'control character'],
    ['lists without end', '['.repeat(1000), 'nests too deep'],
    ['nothing', '', 'its end'],
  ])('refuses %s', (_, text, words) => {
    expect(() => reader(text).skip()).toThrow(words);
  });

  it('keeps no text beyond its limit', () => {
    expect(() => reader('"12345"', 4).text()).toThrow('more than 4 bytes');
    expect(reader('"1234"', 4).text()).toBe('1234');
  });
});

function escapeAll(text: string): string {
  return text
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('');
}
