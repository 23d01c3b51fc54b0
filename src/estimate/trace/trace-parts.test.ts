import { describe, expect, it } from 'vitest';
import { readTrace } from './trace-file.js';
import { liveParts } from './trace-parts.js';
import { pieces } from './traces-for-tests.js';

const names = ['', 'layers.0.mlp', 'layers.1.mlp', 'head', 'conv2d.3x3'];
const trace = await readTrace(
  pieces(
    [
      '{"plimsoll":"trace","version":1,"torch":"2.11.0"}',
      ...names.map((name, index) => JSON.stringify(['s', index, name])),
      '["a",1,1000,0,0,"w"]',
      '["a",2,1000,0,1,"x"]',
      '["a",3,1000,0,2,"x"]',
      '["a",4,512,0,2,"x"]',
      '["a",5,4096,0,4,"x"]',
      '["a",6,100,0,0,"b"]',
      '["a",7,2048,0,3,"t"]',
      '["a",8,9999,0,3,"x"]',
      '["f",8]',
      '["a",9,9999,0,3,"x"]',
      '{"end":true,"parameters":1,"parameterBytes":4}',
    ].join('\n'),
  ),
);
// Two events come before those above: what every job caches at its start.
const last = trace.stream.kind.length - 2;
const { bytes, modules } = liveParts(trace, last);

describe('liveParts', () => {
  it('adds up what is live at that instant, in the blocks the allocator hands out', () => {
    expect([...bytes]).toEqual([
      ['weights', 1024],
      ['activations', 1024 + 1024 + 512 + 4096 + 512],
      ['temporary', 2048],
    ]);
  });

  it('folds modules that differ in their numbers only, and says how many there were', () => {
    expect(modules.get('activations')).toEqual([
      { module: 'conv2d.3x3', count: 1, bytes: 4096 },
      { module: 'layers.*.mlp', count: 2, bytes: 2560 },
      { module: '', count: 1, bytes: 512 },
    ]);
    expect(modules.get('temporary')).toEqual([{ module: 'head', count: 1, bytes: 2048 }]);
    expect(modules.has('weights')).toBe(false);
  });
});
