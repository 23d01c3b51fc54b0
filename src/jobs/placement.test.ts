import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { place, placementPolicies } from './placement.js';

const room = (id: string, freeBytes: number, loadLineBytes = 72) => ({
  id,
  loadLineBytes,
  freeBytes,
});
const gpus = [room('gpu:0', 40), room('gpu:1', 10), room('gpu:2', 20)];

describe('place', () => {
  it('takes the fullest device that still has room, so that large free blocks remain', () => {
    expect(place(gpus, { bytes: 8, gpus: 1 })).toEqual(['gpu:1']);
    expect(place(gpus, { bytes: 12, gpus: 1 })).toEqual(['gpu:2']);
  });

  it('spreads jobs when asked to, by share and not by bytes', () => {
    expect(place(gpus, { bytes: 8, gpus: 1 }, 'balanced')).toEqual(['gpu:0']);
    const unlike = [room('gpu:0', 40, 72), room('gpu:1', 20, 21)];
    expect(place(unlike, { bytes: 8, gpus: 1 }, 'balanced')).toEqual(['gpu:1']);
  });

  it('gives all devices or none', () => {
    expect(place(gpus, { bytes: 15, gpus: 2 })).toEqual(['gpu:0', 'gpu:2']);
    expect(place(gpus, { bytes: 15, gpus: 3 })).toBeUndefined();
    expect(place(gpus, { bytes: 1, gpus: 4 })).toBeUndefined();
  });

  it('uses the host for jobs that ask for no GPU, and for those that ask for one where there is none', () => {
    const withHost = [...gpus, room('host', 500)];
    expect(place(withHost, { bytes: 100, gpus: 0 })).toEqual(['host']);
    expect(place(withHost, { bytes: 100, gpus: 1 })).toBeUndefined();
    expect(place([room('host', 500)], { bytes: 100, gpus: 1 })).toEqual(['host']);
    expect(place([room('host', 500)], { bytes: 100, gpus: 2 })).toBeUndefined();
    expect(place(gpus, { bytes: 1, gpus: 0 })).toBeUndefined();
  });

  it('finds devices whenever there are enough with room, each once', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(72), { minLength: 1, maxLength: 8 }),
        fc.nat(72),
        fc.integer({ min: 1, max: 4 }),
        fc.constantFrom(...placementPolicies),
        (free, bytes, count, policy) => {
          const rooms = free.map((freeBytes, index) => room(`gpu:${index}`, freeBytes));
          const fitting = rooms.filter(({ freeBytes }) => freeBytes >= bytes).map(({ id }) => id);
          const found = place(rooms, { bytes, gpus: count }, policy);
          expect(found === undefined).toBe(fitting.length < count);
          if (found === undefined) return;
          expect(new Set(found).size).toBe(count);
          expect(found.filter((id) => !fitting.includes(id))).toEqual([]);
        },
      ),
    );
  });
});
