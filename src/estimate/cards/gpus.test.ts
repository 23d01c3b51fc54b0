import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { GiB, MiB } from '../../units/bytes.js';
import { callWording } from '../wording.js';
import { gpuAtHand } from './gpu-at-hand.js';
import { knownGpus } from './gpu-table.js';
import { findGpu } from './gpus.js';

function failureOf(name: string): Failure {
  try {
    findGpu(name);
  } catch (error) {
    if (error instanceof Failure) return error;
    throw error;
  }
  throw new Error(`${name} was found`);
}

describe('findGpu', () => {
  it.each([
    ['NVIDIA H200', 'NVIDIA H200'],
    ['h200', 'NVIDIA H200'],
    ['H100', 'NVIDIA H100 80GB HBM3'],
    ['NVIDIA GeForce RTX 4090', 'NVIDIA GeForce RTX 4090'],
    ['rtx-4090', 'NVIDIA GeForce RTX 4090'],
    ['4090', 'NVIDIA GeForce RTX 4090'],
    ['a100 80gb', 'NVIDIA A100-SXM4-80GB'],
    ['NVIDIA A100 80GB PCIe', 'NVIDIA A100-SXM4-80GB'],
    ['a10', 'NVIDIA A10'],
    ['3090 ti', 'NVIDIA GeForce RTX 3090 Ti'],
    ['mi300x', 'AMD Instinct MI300X'],
    ['mi300', 'AMD Instinct MI300X'],
    ['t4', 'Tesla T4'],
  ])('takes %s for %s', (name, found) => {
    expect(findGpu(name).name).toBe(found);
  });

  it('knows how many multiprocessors every card of NVIDIA has', () => {
    const without = knownGpus.filter(({ multiprocessors }) => multiprocessors === undefined);
    expect(without.map(({ vendor }) => vendor)).toEqual(without.map(() => 'amd'));
  });

  it('finds every card by its name and by each alias', () => {
    for (const gpu of knownGpus) {
      for (const name of [gpu.name, ...gpu.aliases]) expect(findGpu(name)).toBe(gpu);
    }
  });

  it('does not choose between cards of different size', () => {
    const failure = failureOf('a100');
    expect(failure).toMatchObject({ kind: 'input', code: 'ambiguous-gpu' });
    expect(failure.fact).toContain('"NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-80GB"');
    expect(failureOf('rtx').fact).toMatch(/, and \d+ more\.$/);
  });

  it('says what was likely meant, or that others can be added', () => {
    expect(failureOf('rtx 4o90')).toMatchObject({
      code: 'unknown-gpu',
      message: expect.stringContaining('Did you mean "NVIDIA GeForce RTX 4090"?'),
    });
    expect(failureOf('Laptop Graphics 77').next).toBe(
      'Known are h200, h100, a100-80gb, l40s, 4090, t4 and more. Add others with the key gpus of plimsoll.config.json.',
    );
    expect(failureOf('').code).toBe('unknown-gpu');
    // A laptop's card has less memory than the card of the same number.
    expect(failureOf('NVIDIA GeForce RTX 4090 Laptop GPU').code).toBe('unknown-gpu');
  });

  it('takes a card of the configuration first, and assumes what was left out', () => {
    const bare = { name: 'Ours', capacityBytes: 16 * GiB };
    expect(findGpu('OURS', [bare])).toMatchObject({
      vendor: 'nvidia',
      capability: 'unknown',
      workspaceBytes: 32 * MiB,
      context: { provenance: 'estimated' },
    });
    const known = { name: 'h200', capacityBytes: GiB, capability: '8.0', contextBytes: 7 };
    expect(findGpu('H200', [known])).toMatchObject({
      capacityBytes: GiB,
      workspaceBytes: 8_519_680,
      context: { bytes: 7, lowBytes: 7, highBytes: 7, provenance: 'measured' },
    });
    const alias = { name: 'Node 7', aliases: ['big'], vendor: 'amd' as const, capacityBytes: GiB };
    expect(findGpu('big', [alias]).workspaceBytes).toBe(128 * MiB);
  });

  it('answers a card or a Failure, whatever it is asked for', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 300 }), (name) => {
        try {
          expect(knownGpus).toContain(findGpu(name));
        } catch (error) {
          expect(error).toBeInstanceOf(Failure);
        }
      }),
    );
  });
});

describe('the table', () => {
  it('holds what was measured on the H200', () => {
    expect(findGpu('h200')).toMatchObject({
      capacityBytes: 150_754_820_096,
      workspaceBytes: 32 * MiB,
      context: { bytes: 758 * MiB, lowBytes: 630 * MiB, highBytes: 762 * MiB },
    });
    const measured = knownGpus.filter(({ context }) => context.provenance === 'measured');
    expect(measured.map(({ name }) => name)).toEqual(['NVIDIA H200']);
  });

  it('gives cards before Hopper the small workspace', () => {
    expect(findGpu('a100-80gb').workspaceBytes).toBe(8_519_680);
    expect(findGpu('h100').workspaceBytes).toBe(32 * MiB);
    expect(findGpu('5090').workspaceBytes).toBe(32 * MiB);
    expect(findGpu('mi300x').workspaceBytes).toBe(128 * MiB);
  });

  it('has sane figures, and no name twice', () => {
    for (const { capacityBytes, context } of knownGpus) {
      expect(capacityBytes).toBeGreaterThan(7 * GiB);
      expect(context.lowBytes).toBeLessThanOrEqual(context.bytes);
      expect(context.bytes).toBeLessThanOrEqual(context.highBytes);
    }
    const names = knownGpus.flatMap(({ name, aliases }) => aliases.concat(name));
    expect(new Set(names).size).toBe(names.length);
  });
});

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
