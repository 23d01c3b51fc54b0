import { assert, double, oneof, property, string, stringMatching } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { describeConfig } from '../config/describe-config.js';
import { parametersInName, parseParameters, usualDecoder } from './usual-decoder.js';

describe('parseParameters', () => {
  it.each([
    ['22b', 22e9],
    ['350M', 350e6],
    ['1.1B', 1.1e9],
    ['8x7b', 56e9],
    ['1100000000', 1.1e9],
  ])('reads %s', (text, count) => expect(parseParameters(text)).toBe(count));

  it('reads a count or refuses it with one failure', () => {
    assert(
      property(oneof(string(), stringMatching(/^[\dxkmbt.]{0,12}$/)), (text) => {
        try {
          const count = parseParameters(text);
          expect(Number.isSafeInteger(count) && count >= 1).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
        }
      }),
    );
  });
});

describe('parametersInName', () => {
  it.each([
    ['acme/banana-22b-chat', 22e9],
    ['tiny_0.5B', 0.5e9],
    ['moe-8x7b', 56e9],
    ['banana', undefined],
    ['2b2t', undefined],
    ['gpt-4bit', undefined],
  ])('reads %s', (name, count) => expect(parametersInName(name)).toBe(count));
});

describe('usualDecoder', () => {
  it('has about as many parameters as asked for, at any size', () => {
    assert(
      property(double({ min: 7, max: 12, noNaN: true }), (exponent) => {
        const wanted = Math.round(10 ** exponent);
        const { parameters } = describeConfig(usualDecoder(wanted), 'test');
        expect(Math.abs(Number(parameters) / wanted - 1)).toBeLessThan(0.05);
      }),
    );
  });
});
