import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EventLine } from './event-line.js';

/** What the line says, between two others. */
function read(text: string) {
  const line = new EventLine();
  const around = `["f",1]\n${text}\n["f",2]\n`;
  const kind = line.read(around, 8, 8 + text.length);
  const { id, bytes, op, module, letter } = line;
  if (kind === 'free') return ['f', id];
  return kind && ['a', id, bytes, op, module, letter];
}

describe('EventLine', () => {
  it('reads requests and frees as they are usually written', () => {
    const count = fc.integer({ min: 0, max: 2 ** 49 });
    const letter = fc.constantFrom('w', 'g', 'o', 'x');
    const event = fc.oneof(
      fc.tuple(fc.constant('a'), count, count, count, count, letter),
      fc.tuple(fc.constant('f'), count),
    );
    fc.assert(
      fc.property(event, (one) => {
        expect(read(JSON.stringify(one))).toEqual(one);
      }),
    );
  });

  it('leaves to others what is written otherwise, and says nothing that JSON does not', () => {
    const others = [
      '["a",1,512,0,0,"x",2]',
      '["a",1,512,0,"x"]',
      '["a",1,-512,0,0,"x"]',
      '["a",01,512,0,0,"x"]',
      '["a",1,512,0,0,"xy"]',
      '["a",1,512,0,0,"x"',
      '["a", 1, 512, 0, 0, "x"]',
      '["a",1,512.5,0,0,"x"]',
      '["a",1,5e3,0,0,"x"]',
      '["f",9007199254740993]',
      '["f",]',
      '["f",1] ',
      '["f",1,2]',
      '["o",1,2,0.5,3]',
      '[f,1]',
      '{}',
      '',
    ];
    expect(others.map(read)).toEqual(others.map(() => undefined));
    const pieces = fc.constantFrom('["a",', '["f",', '1', '0', ',', '"x"', ']', '"', ' ', '-', '.');
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 12 }), (some) => {
        const text = some.join('');
        const found = read(text);
        if (found !== undefined) expect(found).toEqual(JSON.parse(text));
      }),
      { numRuns: 2000 },
    );
  });
});
