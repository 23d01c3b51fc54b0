import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { queryValues } from '../routes/operation.js';
import { jobRequestSchema } from '../schemas/jobs.js';
import { bodyPart, checkable, checkInput } from './check-input.js';

const checked = checkable(jobRequestSchema);

function refusal(value: unknown): { code: string; fact: string; next: string } | undefined {
  try {
    checkInput(value, checked, bodyPart);
    return undefined;
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    const { code, fact, next } = error;
    return { code, fact, next };
  }
}

describe('what is sent', () => {
  it.each([
    [
      { command: ['a'], memoryBytes: '6GiB' },
      'The field memoryBytes is "6GiB".',
      /whole number from 1/,
    ],
    [{ command: ['a'], memoryBytes: 1.5 }, 'The field memoryBytes is 1.5.', /whole number/],
    [{ command: ['a'], memoryBytes: -1 }, 'The field memoryBytes is -1.', /whole number from 1/],
    [{ command: 'python train.py' }, 'The field command is "python train.py".', /a list of 1 to/],
    [{ command: [] }, 'The field command is [].', /a list of 1 to/],
    [{ command: ['a', 7] }, 'The field command.1 is 7.', /It takes a text/],
    [{}, 'The field command is missing.', /a list of 1 to/],
    [{ command: null }, 'The field command is null.', /a list/],
    [{ command: ['a'], cwd: 'here' }, 'The field cwd is "here".', /absolute path/],
    [{ command: ['a\0b'] }, 'The field command.0 is "a\\u0000b".', /without zero bytes/],
    [{ command: ['a'], env: { A: 1 } }, 'The field env.A is 1.', /It takes a text/],
    [{ command: ['a'], priority: 101 }, 'The field priority is 101.', /from -100 to 100/],
    [{ command: ['a'], workload: { batch: 0 } }, 'The field workload.batch is 0.', /whole number/],
    [{ command: ['a'], workload: { mode: 'trian' } }, /mode is "trian"/, /one of train, infer/],
    [[], 'The body is [].', /an object with the keys command, /],
    ['text', 'The body is "text".', /an object/],
    [null, 'The body is null.', /an object/],
  ])('%j is told what is wrong, and what is taken', (value, fact, next) => {
    const found = refusal(value);
    expect(found?.code).toBe('bad-field');
    if (typeof fact === 'string') expect(found?.fact).toBe(fact);
    else expect(found?.fact).toMatch(fact);
    expect(found?.next).toMatch(next);
  });

  it('names the field that was meant', () => {
    expect(refusal({ command: ['a'], memryBytes: 5 })).toEqual({
      code: 'unknown-field',
      fact: 'There is no field "memryBytes".',
      next: 'Did you mean "memoryBytes"?',
    });
    expect(refusal({ command: ['a'], workload: { bach: 1 } })).toMatchObject({
      fact: 'There is no field "workload.bach".',
      next: 'Did you mean "batch"?',
    });
    expect(refusal({ command: ['a'], zzz: 1 })?.next).toMatch(/^There are: command, /);
  });

  it('cuts long values, in facts and in names', () => {
    expect(refusal({ command: 'x'.repeat(5000) })?.fact.length).toBeLessThan(150);
    expect(refusal({ command: ['a'], ['y'.repeat(5000)]: 1 })?.fact.length).toBeLessThan(150);
    const env = { ['z'.repeat(5000)]: 1 };
    expect(refusal({ command: ['a'], env })?.fact.length).toBeLessThan(150);
  });

  it('passes what is right as it is', () => {
    const request = {
      command: ['python', 'a b', ''],
      memoryBytes: 5,
      workload: { model: '/m', batch: 2 },
      priority: -3,
      gpus: 0,
      timeoutSeconds: 0.5,
      cwd: '/srv',
      env: { A: '' },
      name: 'n',
      batch: 8,
      submission: 's',
    };
    expect(checkInput(request, checked, bodyPart)).toEqual(request);
  });

  it('ends in a failure, or passes, whatever JSON comes', () => {
    const keys = fc.oneof(
      fc.constantFrom(...Object.keys(jobRequestSchema.shape), '__proto__', 'constructor', ''),
      fc.string(),
    );
    const body = fc.oneof(fc.dictionary(keys, fc.jsonValue()), fc.jsonValue());
    fc.assert(
      fc.property(body, (value) => {
        const found = refusal(JSON.parse(JSON.stringify(value)) as unknown);
        if (found === undefined) return;
        expect(found.code).toMatch(/^(bad|unknown)-field$/);
        expect(found.fact.length).toBeLessThan(400);
        expect(found.next.length).toBeGreaterThan(5);
      }),
      { numRuns: 2000 },
    );
  });

  it('does not let a field change what objects are', () => {
    const sent = JSON.parse('{"command":["a"],"__proto__":{"gpus":4}}') as unknown;
    expect(refusal(sent)?.code).toBe('unknown-field');
    const env = JSON.parse('{"command":["a"],"env":{"__proto__":"x"}}') as unknown;
    const passed = checkInput(env, checked, bodyPart);
    expect(Object.getPrototypeOf(passed.env)).toBe(Object.prototype);
  });
});

describe('what stands in the address', () => {
  const node = {
    properties: {
      limit: { type: 'integer' },
      share: { type: 'number' },
      state: { type: 'array' },
      order: { type: 'string' },
    },
  };
  const read = (text: string) => queryValues(new URLSearchParams(text), node);

  it('becomes what its option takes', () => {
    expect(read('limit=5&share=0.5&state=a,b&order=newest')).toEqual({
      limit: 5,
      share: 0.5,
      state: ['a', 'b'],
      order: 'newest',
    });
  });

  it.each(['', ' 5', '0x10', '1e3', '+5', '5.', 'NaN', '99999999999999999999'])(
    'takes %j for no number',
    (text) => expect(typeof read(`limit=${encodeURIComponent(text)}`)['limit']).toBe('string'),
  );

  it('keeps unknown names, so that they can be refused', () => {
    expect(read('nope=1&__proto__=2')).toHaveProperty('nope', '1');
    expect(Object.keys(read('__proto__=2'))).toEqual(['__proto__']);
  });

  it('refuses what is said twice', () => {
    expect(() => read('limit=1&limit=2')).toThrow(/is given twice in the address/);
  });

  it('can be anything', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        try {
          read(text);
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
        }
      }),
    );
  });
});
