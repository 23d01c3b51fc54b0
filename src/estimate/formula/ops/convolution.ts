import type { Net } from '../run/net.js';
import type { Tensor } from '../run/tape.js';

interface ConvolutionShape {
  readonly channels: number;
  readonly outputs: number;
  readonly kernel: readonly [number, number];
  readonly stride: readonly [number, number];
  readonly padding?: readonly [number, number];
  /** Each channel by itself. */
  readonly depthwise?: boolean;
  /** Groups of channels that do not mix. */
  readonly groups?: number;
  readonly bias?: boolean;
}

type Size = readonly [batch: number, height: number, width: number];
export type Convolution = (x: Tensor, size: Size) => Tensor;

/** cuDNN works on channels filled up to 16 bytes. */
const channelBytes = 16;

/** Rows and columns of what a convolution puts out. */
function outputSize(size: Size, { kernel, stride, padding = [0, 0] }: ConvolutionShape): Size {
  const [batch, high, wide] = size;
  const fits = (edge: number, index: 0 | 1) =>
    Math.floor((edge + 2 * padding[index] - kernel[index]) / stride[index]) + 1;
  return [batch, fits(high, 0), fits(wide, 1)];
}

/**
 * Runs a convolution. Tensors in channels-first layout are copied for cuDNN: input, output and
 * weights, in forward and in each half of backward. Depthwise convolutions use PyTorch's own
 * kernels, without copies.
 */
export function convolution(net: Net, shape: ConvolutionShape): Convolution {
  const { tape, settings } = net;
  const { channels, outputs, kernel, depthwise = false, bias = true } = shape;
  const groups = shape.groups ?? (depthwise ? channels : 1);
  const weight = net.parameter([outputs, channels / groups, ...kernel]);
  const offset = bias ? net.parameter([outputs]) : undefined;
  return (given, size) => {
    const width = settings.autocast ?? given.width;
    const cheap = offset === undefined ? undefined : net.weight(offset, width);
    const matrix = net.weight(weight, width);
    const x = net.castFor(given, width);
    const [batch, height, breadth] = outputSize(size, shape);
    const elements = batch * height * breadth * outputs;
    const filled = (count: number) => {
      const step = Math.max(1, channelBytes / width);
      return Math.ceil(count / step) * step;
    };
    const copies =
      (size[0] * size[1] * size[2] * filled(channels) +
        batch * height * breadth * filled(outputs) +
        (filled(outputs) * filled(channels / groups) * weight.elements) /
          ((outputs * channels) / groups)) *
      width;
    const workspace = depthwise ? [] : [Math.ceil(copies)];
    const result = tape.run({
      elements,
      width,
      inputs: [x, matrix, ...(cheap ? [cheap] : [])],
      saves: [...(matrix.source ? [x] : []), ...(x.source ? [matrix] : [])],
      backward: () => {
        for (const one of [x, matrix]) {
          if (one.source === undefined) continue;
          const own = tape.grad(one);
          tape.recorder.scratch(workspace, 'workspace');
          tape.give(one, own);
        }
        if (cheap?.source) tape.give(cheap, tape.grad(cheap));
      },
    });
    tape.recorder.scratch(workspace, 'workspace');
    if (given.passing) tape.drop(given);
    return result;
  };
}
