import { describe, expect, it } from 'vitest';
import { ParameterList } from './parameter-list.js';

describe('ParameterList', () => {
  it('counts the copies of nested scopes', () => {
    const list = new ParameterList();
    const expert = list.scope('layers.*', 3).scope('experts.*', 4);
    expert.linear('up', 10, 20);
    expect(list.groups()).toEqual([
      { name: 'layers.*.experts.*.up.weight', shape: [20, 10], count: 12, trainable: true },
      { name: 'layers.*.experts.*.up.bias', shape: [20], count: 12, trainable: true },
    ]);
    expect(list.count()).toBe(12 * 220);
  });

  it('joins what has the same name and shape, and keeps apart what is not trained', () => {
    const list = new ParameterList();
    for (const trainable of [true, true, false]) list.tensor('w', [2, 3], trainable);
    list.tensor('w', [3, 2]);
    expect(list.groups().map(({ count, trainable }) => [count, trainable])).toEqual([
      [2, true],
      [1, false],
      [1, true],
    ]);
    expect(list.count()).toBe(24);
    expect(list.count(true)).toBe(18);
  });

  it('has nothing of a scope that is there no time, and one element in a scalar', () => {
    const list = new ParameterList();
    list.scope('layers.*', 0).norm('norm', 64);
    list.tensor('scale', []);
    expect(list.groups().map(({ name }) => name)).toEqual(['scale']);
    expect(list.count()).toBe(1);
  });
});
