import { describe, expect, it } from 'vitest';
import { refuseForProgram } from './program-options.js';

describe('refuseForProgram', () => {
  const taken = new Set(['gpu']);

  it('takes what is for programs', () => {
    const given = { gpu: 'h100', batch: undefined };
    expect(() => refuseForProgram(given, taken)).not.toThrow();
  });

  it.each([
    [{ batch: 8 }, '--batch'],
    [{ lowMemory: true }, '--low-memory'],
    [{ reshard: false }, '--no-reshard'],
    [{ origParams: false }, '--no-orig-params'],
  ])('refuses %o by the name that was typed', (given, option) => {
    expect(() => refuseForProgram(given, taken)).toThrow(option);
  });
});
