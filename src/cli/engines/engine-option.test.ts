import { describe, expect, it } from 'vitest';
import { checkedForCluster, clusterOf } from './engine-option.js';

describe('options with a cluster', () => {
  it.each(['server', 'socket', 'watch', 'hub', 'priority', 'timeout'])(
    '--%s is refused, as it would be ignored',
    (option) => {
      const given = { engine: 'slurm', [option]: 1 } as const;
      expect(() => checkedForCluster(given)).toThrow(`--${option} is for a plimsoll server`);
    },
  );

  it('--address is for Ray alone', () => {
    const address = 'http://head:8265';
    expect(checkedForCluster({ engine: 'ray', address })).toMatchObject({ address });
    expect(() => checkedForCluster({ engine: 'slurm', address })).toThrow('does not name ray');
    expect(() => clusterOf({ address })).toThrow('does not name ray');
    expect(clusterOf({ engine: 'ray', address })).toBe('ray');
  });

  it('others pass', () => {
    const given = { engine: 'slurm', memory: 1, server: undefined } as const;
    expect(checkedForCluster(given)).toBe(given);
    expect(clusterOf(given)).toBe('slurm');
    expect(clusterOf({ engine: 'local' })).toBeUndefined();
    expect(clusterOf({})).toBeUndefined();
  });
});
