import { expect, it } from 'vitest';
import { keyId } from './known-strings.js';

it('numbers the keys of an event as the reader has them written out', () => {
  const keys = ['action', 'addr', 'size', 'stream', 'time_us', 'frames', 'device_free'] as const;
  expect(keys.map(keyId)).toEqual([0, 1, 2, 3, 4, 5, 6]);
});
