import { describe, expect, it } from 'vitest';
import { replay } from '../../trace/event-replay.js';
import { Recorder } from './recorder.js';
import { last, Tape, type Tensor } from './tape.js';

const size = 1024;

function started(learns = true) {
  const recorder = new Recorder();
  const tape = new Tape(recorder, learns);
  const source = { elements: size, width: 4, leaf: true, collected: undefined };
  const block = recorder.take(size * 4);
  const weight: Tensor = {
    elements: size,
    width: 4,
    block,
    source,
    passing: false,
    dropped: false,
  };
  recorder.ready();
  return { recorder, tape, weight };
}

/** Bytes in blocks at the peak, beside the weight itself. */
function peakOf(recorder: Recorder): number {
  return replay(recorder.finish().stream).peakAllocatedBytes - size * 4;
}

/** An op that keeps its input. */
function keeping(tape: Tape, x: Tensor): Tensor {
  return tape.run({ elements: size, width: 4, inputs: [x], saves: [x] });
}

function chain(tape: Tape, start: Tensor, length: number): Tensor {
  return tape.scope(() => {
    let x = keeping(tape, start);
    for (let index = 1; index < length; index += 1) x = keeping(tape, last(x));
    return x;
  });
}

describe('Tape', () => {
  it('keeps what backward needs, and nothing without a backward', () => {
    const training = started();
    chain(training.tape, training.weight, 10);
    expect(peakOf(training.recorder)).toBe(10 * size * 4);
    const inference = started(false);
    chain(inference.tape, inference.weight, 10);
    expect(peakOf(inference.recorder)).toBe(2 * size * 4);
  });

  it('gives back in backward what forward kept, and leaves the gradient', () => {
    const { recorder, tape, weight } = started();
    const answer = chain(tape, weight, 10);
    tape.backward(answer);
    tape.drop(answer);
    const { allocator } = replay(recorder.finish().stream);
    expect(allocator.allocatedBytes).toBe(2 * size * 4);
    expect(weight.source?.collected?.bytes).toBe(size * 4);
  });

  it('adds a second gradient in place, but not where another still looks at the first', () => {
    const { tape, weight } = started();
    const x = keeping(tape, weight);
    const first = tape.grad(x);
    tape.give(x, first);
    tape.give(x, tape.grad(x));
    expect(x.source?.collected).toBe(first);
    tape.pass(x, first);
    expect(x.source?.collected).not.toBe(first);
  });

  it('keeps only the inputs of checkpointed parts, and runs each again once', () => {
    const { recorder, tape, weight } = started();
    let runs = 0;
    const part = (x: Tensor) => {
      runs += 1;
      return chain(tape, x, 8);
    };
    let x = keeping(tape, weight);
    for (let index = 0; index < 4; index += 1) {
      const before = x;
      x = tape.scope(() => tape.checkpoint(before, part));
      tape.drop(before);
    }
    const forward = peakOf(recorder);
    expect(forward).toBeLessThanOrEqual(7 * size * 4);
    tape.backward(x);
    tape.drop(x);
    expect(runs).toBe(8);
    expect(peakOf(recorder)).toBeLessThan(20 * size * 4);
    expect(replay(recorder.finish().stream).allocator.allocatedBytes).toBe(2 * size * 4);
  });

  it('puts the gradients of parts together into one', () => {
    const { recorder, tape, weight } = started();
    const [one, two] = tape.split(weight, [size / 2, size / 2]);
    if (one === undefined || two === undefined) throw new Error('two parts were asked for');
    tape.backward(tape.run({ elements: 1, width: 4, inputs: [one, two] }));
    expect(weight.source?.collected?.bytes).toBe(size * 4);
    expect(recorder.finish().parts[weight.source?.collected?.slot ?? 0]).toBe('gradients');
  });
});
