import { expect, it } from 'vitest';
import { versioned } from './document-version.js';

it('every document has a version; one with its own keeps it', () => {
  expect(versioned({ devices: [] })).toEqual({ devices: [], schema: 1 });
  expect(versioned({ schema: 2, devices: {} })).toEqual({ schema: 2, devices: {} });
});
