import { describe, expect, it } from 'vitest';
import { GiB, MiB } from '../../units/bytes.js';
import { callWording } from '../wording.js';
import { gpuAtHand } from './gpu-at-hand.js';

const found = (name: string, totalBytes: number | 'unknown' = 20 * GiB) => [
  { id: 'gpu:0', name, totalBytes } as const,
];

describe('gpuAtHand', () => {
  it('takes the first card of this machine, with the memory that was read', () => {
    const cards = [...found('Tesla T4', 15_109 * MiB), ...found('NVIDIA H200')];
    const { gpu, notes } = gpuAtHand(cards, [], callWording);
    expect(gpu).toMatchObject({ name: 'Tesla T4', capability: '7.5' });
    expect(gpu.capacityBytes).toBe(15_109 * MiB);
    expect(notes).toEqual(['This is for gpu:0, which was found here.']);
  });

  it('says when there is none', () => {
    const { gpu, notes } = gpuAtHand([], [], callWording);
    expect(gpu.name).toBe('NVIDIA H200');
    expect(notes).toEqual([
      'No GPU was found here, so this is for the NVIDIA H200; another is named with gpu.',
    ]);
  });

  it('takes a card that is not in the table by its capacity', () => {
    const { gpu, notes } = gpuAtHand(found('Unheard Of 9'), [], callWording);
    expect(gpu).toMatchObject({ name: 'Unheard Of 9', capacityBytes: 20 * GiB });
    expect(gpu.context.provenance).toBe('estimated');
    expect(notes.join()).toContain('not in the table');
    expect(gpuAtHand(found('Unheard Of 9', 'unknown'), [], callWording).gpu.name).toBe(
      'NVIDIA H200',
    );
  });

  it('knows the cards of the configuration', () => {
    const ours = { name: 'Unheard Of 9', capacityBytes: 1 * GiB, contextBytes: 7 * MiB };
    expect(gpuAtHand(found('Unheard Of 9'), [ours], callWording).gpu.context.bytes).toBe(7 * MiB);
  });
});
