// Draws that a seed repeats: an attack that found something is run again with the seed that it printed.
import { randomFrom } from '../../queue/random.mjs';

export function draws(seed) {
  const next = randomFrom(seed);
  return {
    between: (low, high) => low + next() * (high - low),
    chance: (share) => next() < share,
    pick: (list) => list[Math.floor(next() * list.length)],
  };
}
