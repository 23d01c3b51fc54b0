/**
 * What becomes of a batch that GPUs cannot share out evenly, in words: each takes as many samples as the
 * others. Undefined where they can.
 *
 * @example
 * unevenBatch(20, 8); // '... a step takes 24 samples, 3 on each GPU. With 10 GPUs it stays 20.'
 */
export function unevenBatch(batch: number, gpus: number): string | undefined {
  if (batch % gpus === 0) return undefined;
  const each = Math.ceil(batch / gpus);
  let even = gpus + 1;
  while (even <= batch && batch % even !== 0) even += 1;
  const kept = even > batch ? '' : ` With ${even} GPUs it stays ${batch}.`;
  return `A batch of ${batch} cannot be split evenly over ${gpus} GPUs: a step takes ${each * gpus} samples, ${each} on each GPU.${kept}`;
}
