export const sampleWidth = 4;

export interface Sample {
  readonly inputs: readonly number[];
  readonly target: number;
}

/** The sample of a number: always the same, so that no two runs differ in what they see. */
export function sampleAt(index: number): Sample {
  const inputs = [1, 2, 3, 4].map((k) => Math.sin(index * 0.7391 * k + k));
  const [a = 0, b = 0, c = 0, d = 0] = inputs;
  return { inputs, target: a * b + 0.5 * c - 0.25 * d };
}
