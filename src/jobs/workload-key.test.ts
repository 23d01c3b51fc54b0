import { describe, expect, it } from 'vitest';
import { workloadKey } from './workload-key.js';

const key = (command: readonly string[], more = {}) => workloadKey({ command, gpus: 1, ...more });

describe('workloadKey', () => {
  it('is the same for one workload, however it is written', () => {
    const plain = key(['python', 'train.py', '--batch', '8']);
    expect(key(['/usr/bin/python', 'train.py', '--batch=8'])).toBe(plain);
    expect(key([' python', 'train.py ', '--batch', '8'])).toBe(plain);
    expect(key(['a'], { workload: { batch: 1, mode: 'train' } })).toBe(
      key(['a'], { workload: { mode: 'train', batch: 1, sequence: undefined } }),
    );
  });

  it('differs wherever the memory may', () => {
    const keys = [
      key(['python', 'train.py', '--batch', '8']),
      key(['python', 'train.py', '--batch', '16']),
      key(['python', 'train.py --batch', '8']),
      key(['python', 'b/train.py', '--batch', '8']),
      key(['python', 'train.py', '--batch', '8'], { gpus: 2 }),
      key(['python', 'train.py', '--batch', '8'], { settings: { batch: 4 } }),
      key(['python', 'train.py', '--batch', '8'], { workload: { batch: 4 } }),
    ];
    expect(new Set(keys).size).toBe(keys.length);
  });
});
