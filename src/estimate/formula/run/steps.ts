import type { Optimizer } from '../../types.js';
import type { Built } from '../families/context.js';
import type { Net } from './net.js';
import { OptimizerSteps } from './optimizer.js';
import type { Tensor } from './tensor.js';

/** States of the optimizer appear in the first step, so that the second or third is the peak. */
const steps = 3;
/** With gradients that are added up: two batches for each step show all that more would. */
const accumulatedBatches = 2;

/** A few steps of training or inference; the last step's batch lives until the next is there. */
export function runSteps(net: Net, built: Built, optimizer: Optimizer, accumulation = 1): void {
  const { tape, settings } = net;
  const { recorder } = tape;
  const updates = settings.training ? new OptimizerSteps(net, optimizer) : undefined;
  let held: Tensor[] = [];
  const each = accumulation > 1 && settings.training ? accumulatedBatches : 1;
  for (let step = 1; step <= steps * each; step += 1) {
    recorder.part = 'activations';
    const batch = built.batch();
    for (const tensor of held) tape.drop(tensor);
    held = batch.map((tensor) => tape.alias(tensor));
    tape.scope(() => {
      for (const tensor of batch) tape.own(Object.assign(tensor, { passing: true }));
      const answer = built.forward(batch);
      if (!settings.training) net.putOut(answer);
      net.replaceOutput();
      net.forgetCasts();
      if (updates !== undefined) {
        recorder.part = 'temporary';
        tape.backward(answer);
        net.forgetCasts();
        if (step % each === 0) {
          updates.step();
          updates.zero();
        } else updates.keepGradients();
      }
      tape.drop(answer);
      net.endStep();
      return batch[0] ?? answer;
    });
  }
}
