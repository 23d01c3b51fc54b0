import { normalNumbers, randomNumbers } from './random.mjs';

/** Items of one size each; a cache holds a thousand of them. */
export const cacheItems = 1000;
const requests = 300_000;

/** Numbers of items in the order in which they are asked for, the same in every run. */
export const patterns = {
  'Zipf 0.9 over 20,000 items': () => drawn(7, zipf(20_000, 0.9)),
  'Zipf 1.2 over 20,000 items': () => drawn(7, zipf(20_000, 1.2)),
  'loop, 1.2 times the cache': () => numbered((index) => index % 1200),
  'loop, 5 times the cache': () => numbered((index) => index % 5000),
  'Zipf with scans through': () => {
    const draw = drawer(7, zipf(5000, 1));
    return numbered((index) => (index % 10_000 < 3000 ? 1_000_000 + index : draw()));
  },
  'Zipf that shifts': () => {
    const draw = drawer(7, zipf(5000, 1));
    return numbered((index) => draw() + Math.floor(index / 15_000) * 2500);
  },
  'Zipf that shifts fast': () => {
    const draw = drawer(7, zipf(5000, 1));
    return numbered((index) => draw() + Math.floor(index / 5000) * 2500);
  },
  'hot set that is replaced': () => {
    const random = randomNumbers(7);
    return numbered((index) => {
      const first = Math.floor(index / 20_000) * 800;
      return random() < 0.9
        ? first + Math.floor(random() * 800)
        : 1_000_000 + Math.floor(random() * 20_000);
    });
  },
};

function numbered(make) {
  return Array.from({ length: requests }, (_, index) => make(index));
}

function drawn(seed, sums) {
  const draw = drawer(seed, sums);
  return numbered(() => draw());
}

function zipf(items, exponent) {
  const sums = new Float64Array(items);
  let sum = 0;
  for (let item = 0; item < items; item++) {
    sum += 1 / (item + 1) ** exponent;
    sums[item] = sum;
  }
  return sums;
}

function drawer(seed, sums) {
  const random = randomNumbers(seed);
  return () => {
    const wanted = random() * sums[sums.length - 1];
    let low = 0;
    let high = sums.length - 1;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sums[middle] < wanted) low = middle + 1;
      else high = middle;
    }
    return low;
  };
}

const numbers = 1 << 20;

/** What a reinforcement learner stores as float32, 4 MiB each: made, not recorded. */
export function observations() {
  const normal = normalNumbers(randomNumbers(11));
  return {
    'frames: 84 x 84, moving shapes, 0 to 1': frames(),
    'frames with noise of a camera': frames((value) =>
      Math.round(Math.min(255, Math.max(0, value + 2 * normal()))),
    ),
    'states: joint angles and speeds': states(normal),
    'smooth series: temperatures, every second': filled(
      (index) => 20 + 5 * Math.sin(index / 500) + 0.01 * normal(),
    ),
    'noise: normal numbers': filled(() => normal()),
  };
}

function filled(make) {
  const out = new Float32Array(numbers);
  for (let index = 0; index < numbers; index++) out[index] = make(index);
  return out;
}

function frames(seen = (value) => value) {
  return filled((index) => {
    const [x, y, frame] = [index % 84, Math.floor(index / 84) % 84, Math.floor(index / 7056)];
    const ball = (x - frame * 3 + 8400) % 84 < 4 && Math.abs(y - 40 - (frame % 20)) < 3;
    const paddle = x > 78 && Math.abs(y - ((frame * 2) % 84)) < 8;
    return seen(ball || paddle ? 236 : y < 8 ? 0 : 87) / 255;
  });
}

/** 17 numbers a step: 8 positions that swing, 9 speeds with noise. */
function states(normal) {
  return filled((index) => {
    const [step, place] = [Math.floor(index / 17), index % 17];
    const angle = Math.sin(step / (20 + place) + place);
    return place < 8 ? 0.6 * angle + 0.01 * normal() : 3 * angle + 0.3 * normal();
  });
}
