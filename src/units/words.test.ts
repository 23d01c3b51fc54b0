import { describe, expect, it } from 'vitest';
import { nearest } from './words.js';

describe('nearest', () => {
  it('finds a slip of the finger', () => {
    const keys = ['intervalSeconds', 'processIntervalSeconds', 'devices'];
    expect(nearest('intervalSecond', keys)).toBe('intervalSeconds');
    expect(nearest('dveices', keys)).toBe('devices');
    expect(nearest('DEVICES', keys)).toBe('devices');
  });

  it('stays silent when nothing is near', () => {
    expect(nearest('colour', ['intervalSeconds', 'devices'])).toBeUndefined();
    expect(nearest('x', ['intervalSeconds'])).toBeUndefined();
  });
});
