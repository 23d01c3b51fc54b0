import { type Sample, sampleWidth } from './samples.js';

/** One wide layer of softsign, and one number out of it. */
export interface Network {
  readonly weights: Float64Array;
  zeroGradients(): void;
  /** Adds the gradients of the squared error of some samples; answers their part of the loss. */
  backward(
    first: number,
    count: number,
    sampleAt: (index: number) => Sample,
    scale: number,
  ): number;
  update(learningRate: number): void;
}

export function createNetwork(width: number): Network {
  const perUnit = sampleWidth + 2;
  const weights = new Float64Array(width * perUnit);
  const gradients = new Float64Array(weights.length);
  // The same start each time, without a library: small numbers that differ by unit.
  for (let i = 0; i < weights.length; i++) weights[i] = Math.sin(i * 12.9898) * 0.3;

  return {
    weights,
    zeroGradients: () => void gradients.fill(0),
    backward(first, count, sampleAt, scale) {
      // Kept from the forward pass for the backward pass: this is what fills the memory.
      const hidden = new Float64Array(count * width);
      const errors = new Float64Array(count);
      let loss = 0;
      for (let n = 0; n < count; n++) {
        const { inputs, target } = sampleAt(first + n);
        let output = 0;
        for (let unit = 0; unit < width; unit++) {
          const at = unit * perUnit;
          let sum = weights[at + sampleWidth] ?? 0;
          for (let i = 0; i < sampleWidth; i++) sum += (weights[at + i] ?? 0) * (inputs[i] ?? 0);
          const value = sum / (1 + Math.abs(sum));
          hidden[n * width + unit] = value;
          output += value * (weights[at + sampleWidth + 1] ?? 0);
        }
        const error = output / Math.sqrt(width) - target;
        errors[n] = error;
        loss += error * error * scale;
      }
      const slopes = new Float64Array(count * width);
      for (let n = 0; n < count; n++) {
        const { inputs } = sampleAt(first + n);
        const back = (2 * (errors[n] ?? 0) * scale) / Math.sqrt(width);
        for (let unit = 0; unit < width; unit++) {
          const at = unit * perUnit;
          const value = hidden[n * width + unit] ?? 0;
          const slope = back * (weights[at + sampleWidth + 1] ?? 0) * (1 - Math.abs(value)) ** 2;
          slopes[n * width + unit] = slope;
          gradients[at + sampleWidth + 1] = (gradients[at + sampleWidth + 1] ?? 0) + back * value;
          gradients[at + sampleWidth] = (gradients[at + sampleWidth] ?? 0) + slope;
          for (let i = 0; i < sampleWidth; i++) {
            gradients[at + i] = (gradients[at + i] ?? 0) + slope * (inputs[i] ?? 0);
          }
        }
      }
      return loss;
    },
    update(learningRate) {
      for (let i = 0; i < weights.length; i++) {
        weights[i] = (weights[i] ?? 0) - learningRate * (gradients[i] ?? 0);
      }
    },
  };
}
