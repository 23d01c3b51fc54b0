import { randomNumbers } from './random.mjs';

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
