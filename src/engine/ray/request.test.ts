import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { GiB, MiB } from '../../units/bytes.js';
import { rayOptions } from './job-folder.js';
import { type RayNode, rayOffers } from './nodes.js';
import { rayRequest, shareOf } from './request.js';

const node = (change: Partial<RayNode>): RayNode => ({
  id: 'id',
  name: 'n',
  ip: '10.0.0.1',
  isHead: false,
  gpus: 2,
  type: 'A100-80G',
  typeBy: 'resource',
  gpuBytes: 'unknown',
  ...change,
});
const a100 = node({});
const h200 = node({ type: 'H200', typeBy: 'label', gpus: 1 });
const offers = (...nodes: readonly RayNode[]) => rayOffers(nodes, {}, []);
const codeOf = (work: () => unknown) => {
  try {
    return work();
  } catch (error) {
    return error instanceof Failure ? error.code : error;
  }
};

describe('what Ray is asked for', () => {
  it('is the share of the smallest card that is enough', () => {
    const both = offers(a100, h200);
    expect(rayRequest({ bytes: 20 * GiB, gpus: 1 }, both)).toMatchObject({
      numGpus: 0.25,
      limitBytes: 20 * GiB,
      resources: { 'accelerator_type:A100-80G': 0.001 },
      labels: {},
    });
    expect(rayRequest({ bytes: 100 * GiB, gpus: 1 }, both)).toMatchObject({
      resources: {},
      labels: { 'ray.io/accelerator-type': 'H200' },
    });
  });

  it('names no type where all cards are the same, and whole cards where several are needed', () => {
    expect(rayRequest({ bytes: 20 * GiB, gpus: 1 }, offers(a100)).resources).toEqual({});
    const two = rayRequest({ bytes: 20 * GiB, gpus: 2 }, offers(a100, h200));
    expect(two).toMatchObject({ numGpus: 2, limitBytes: 'none' });
  });

  it('is a whole card, with a note, where need or size is unknown', () => {
    const need = rayRequest({ bytes: 'unknown', gpus: 1 }, offers(a100));
    expect(need).toMatchObject({ numGpus: 1, limitBytes: 'none' });
    expect(need.notes[0]).toContain('Nothing is known');
    const size = rayRequest({ bytes: GiB, gpus: 1 }, offers(node({ type: '', typeBy: 'none' })));
    expect(size).toMatchObject({ numGpus: 1, limitBytes: 'none' });
    expect(size.notes[0]).toContain('"gpuBytes": { "gpu": BYTES }');
  });

  it('takes what the driver says, and what the configuration says before it', () => {
    const driver = node({ type: '', typeBy: 'none', gpuBytes: 40 * GiB });
    expect(rayRequest({ bytes: 10 * GiB, gpus: 1 }, offers(driver)).numGpus).toBe(0.25);
    const said = rayOffers([driver], { gpuBytes: { gpu: 20 * GiB } }, []);
    expect(rayRequest({ bytes: 10 * GiB, gpus: 1 }, said).numGpus).toBe(0.5);
  });

  it('counts for the smallest card where jobs cannot choose one', () => {
    const small = node({ type: '', typeBy: 'none', gpuBytes: 16 * GiB });
    const large = node({ type: '', typeBy: 'none', gpuBytes: 80 * GiB });
    expect(rayRequest({ bytes: 8 * GiB, gpus: 1 }, offers(small, large)).numGpus).toBe(0.5);
    expect(rayRequest({ bytes: 40 * GiB, gpus: 1 }, offers(small, large)).numGpus).toBe(1);
  });

  it('is memory of the host without a GPU, and one CPU where that is unknown', () => {
    expect(rayRequest({ bytes: GiB, gpus: 0 }, [])).toMatchObject({
      numGpus: 0,
      memoryBytes: GiB + 256 * MiB,
      limitBytes: GiB,
    });
    expect(rayRequest({ bytes: 'unknown', gpus: 0 }, [])).toMatchObject({ numCpus: 1 });
  });

  it('is an error where no card holds it or no node has so many', () => {
    expect(codeOf(() => rayRequest({ bytes: 900 * GiB, gpus: 1 }, offers(a100)))).toBe(
      'does-not-fit',
    );
    expect(codeOf(() => rayRequest({ bytes: GiB, gpus: 3 }, offers(a100)))).toBe('no-such-gpu');
  });

  it('never gives less than is needed, nor more than a step too much', () => {
    const sizes = fc.integer({ min: 1, max: 200 * GiB });
    fc.assert(
      fc.property(sizes, sizes, (a, b) => {
        const [bytes, capacity] = [Math.min(a, b), Math.max(a, b)];
        const share = shareOf(bytes, capacity);
        expect(share).toBeLessThanOrEqual(1);
        expect(share === 1 || Math.floor(share * capacity) >= bytes).toBe(true);
        expect(share).toBeLessThanOrEqual(bytes / capacity + 2 / 10_000);
      }),
    );
  });
});

describe('options of ray job submit', () => {
  it('pass where they make sense', () => {
    const words = ['--entrypoint-num-cpus=4', '--entrypoint-resources={"tpu": 1}'];
    expect(rayOptions([...words, '--metadata-json={"team": "a"}'])).toEqual({
      numCpus: 4,
      resources: { tpu: 1 },
      labels: {},
      metadata: { team: 'a' },
    });
  });

  it.each([
    ['--entrypoint-num-gpus=1', 'bad-usage'],
    ['--submission-id=x', 'bad-usage'],
    ['--entrypoint-num-cpus=many', 'bad-option'],
    ['--entrypoint-resources={"tpu": "x"}', 'bad-option'],
    ['--metadata-json=[1]', 'bad-option'],
    ['--metadata-json', 'bad-option'],
  ])('%s is refused', (word, code) => {
    expect(codeOf(() => rayOptions([word]))).toBe(code);
  });
});
