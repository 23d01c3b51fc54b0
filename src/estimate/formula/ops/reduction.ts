const threads = 512;
const warp = 32;
const fewestValues = 16;
const maxValues = 256;
const vector = 4;
/** Multiprocessors and threads of the H200, which the other figures come from too. */
const multiprocessors = 132;
const threadsEach = 2048;

/**
 * What PyTorch's reduction kernel needs between its blocks to sum `rows` rows of `columns` values
 * into one row, as for the gradient of a bias.
 */
export function columnSumScratch(rows: number, columns: number): readonly number[] {
  let step = vector;
  while (columns % step !== 0) step /= 2;
  const most = threads / step;
  const dim0 = powerBelow(Math.floor(columns / step), most);
  const dim1 = powerBelow(rows, most);
  const height = Math.min(dim1, Math.floor(most / Math.min(dim0, warp)));
  const width = Math.min(dim0, Math.floor(most / height));
  if (rows < Math.min(height * fewestValues, maxValues)) return [];
  const target = multiprocessors * Math.floor(threadsEach / (width * height));
  const grid = Math.ceil(Math.floor(columns / step) / width);
  const values = Math.ceil(rows / height);
  if (values < maxValues || grid > target) return [];
  const blocks = Math.max(
    Math.min(Math.ceil(target / grid), Math.ceil(values / fewestValues)),
    Math.ceil(values / maxValues),
  );
  return blocks <= 1 ? [] : [4 * columns * blocks * width * step, 4 * grid];
}

function powerBelow(value: number, most: number): number {
  return value < most ? 2 ** Math.floor(Math.log2(Math.max(1, value))) : most;
}
