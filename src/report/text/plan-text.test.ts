import { describe, expect, it } from 'vitest';
import { bitsAndBytesArguments } from '../../plan/quantization/bits-and-bytes.js';
import { GiB } from '../../units/bytes.js';
import { budget, plan } from '../plan-for-tests.js';
import { planText } from './plan-text.js';

const options = {
  budget,
  gpu: { name: 'NVIDIA H200' },
  columns: 100,
  style: { colour: false, unicode: true },
};

describe('planText', () => {
  it('tells whether it fits, what to set, what fills it, and what else there is', () => {
    expect(planText(plan, options)).toMatchInlineSnapshot(`
      "It fits into 24.0 GiB and needs 20.7 GiB of it; 37 % slower per sample than the fastest settings
      without a limit.

      Set this:
        batch         8  at a time
        accumulation  4  32 samples a step
        precision     amp-bf16
        optimizer     adamw-fused
        checkpointing yes
        quantization  none
        offload       none

      At the peak (estimated, by trace):
        WWWWWWWWWWWWWWOOOOOOOOOOOOOOOOOOOOOOOOOOOOOAAAAAAAAAAAAAAACC
        W weights          5.0 GiB  24.1 %
        O optimizer       10.0 GiB  48.2 %
        A activations      5.0 GiB  24.1 %
        C context          758 MiB   3.6 %

      What else there is:
        fits  batch     needs    time  how
        yes   8 x 4  15.7 GiB  0.91 x  bf16, adamw-fused (by formula)
              gives up: weights and states of the optimizer in 16 bits
        no       32  40.7 GiB  1.00 x  amp-bf16, adamw-fused

      - One way could not be estimated: <b>none</b>.
      - Estimated from a run on the meta device."
    `);
  });

  it('says what was given up, and what shares the work', () => {
    const { settings } = plan;
    const text = planText(
      {
        ...plan,
        givesUp: ['weights in 8 bits'],
        settings: { ...settings, lora: 16, quantization: 'int8', gpus: 8, zero: 2 },
      },
      options,
    );
    expect(text).toContain('given up: weights in 8 bits');
    expect(text).toContain('256 samples a step');
    expect(text).toMatch(/zero +2 {2}optimizer states and gradients are shared out/);
    expect(text).toMatch(/lora +16/);
  });

  it('begins with what changes the training, where it fits only so', () => {
    const trained = 'adapters of rank 16 are trained, not the model';
    const changed = { ...plan, concession: 'training', givesUp: [trained] } as const;
    const text = planText(changed, { ...options, columns: 60 });
    expect(text.split('\n').slice(0, 5).join(' ')).toContain(
      `It does not fit into 24.0 GiB without a change to the training: ${trained}. With that it needs 20.7 GiB;`,
    );
    expect(planText({ ...changed, surely: false }, options)).not.toMatch(/^It fits/);
  });

  it('begins with what may be missing, where the interval reaches beyond the budget', () => {
    const { estimate } = plan;
    const interval = { ...estimate.interval, highBytes: 26 * GiB };
    const tight = { ...plan, surely: false, estimate: { ...estimate, interval } };
    expect(planText(tight, { ...options, columns: 200 }).split('\n')[0]).toBe(
      'It should fit into 24.0 GiB; it may lack up to 2.7 GiB by the upper end of its interval. It needs 20.7 GiB by the estimate.',
    );
  });

  it('says what is missing where nothing fits', () => {
    const [first = ''] = planText({ ...plan, fits: false, surely: false }, options).split('\n');
    expect(first).toBe('Nothing fits into 24.0 GiB: what comes nearest needs 20.7 GiB.');
  });

  it('prints how to load quantized weights, uncut on a narrow terminal', () => {
    const loading = bitsAndBytesArguments('int8', { gpuBytes: [20 * GiB], hostBytes: 0 });
    const text = planText(plan, { ...options, columns: 30, loading });
    expect(text).toContain('model = AutoModelForCausalLM.from_pretrained(');
    expect(text).toContain('        load_in_8bit=True,');
    const table = text.split('\n').slice(
      0,
      text.split('\n').findIndex((line) => line === 'Load it with:'),
    );
    expect(Math.max(...table.map((line) => line.length))).toBeLessThanOrEqual(30);
  });

  it('calls them batches where only those differ', () => {
    const [, bigger] = plan.alternatives;
    const same = { ...plan, settings: { ...plan.settings, checkpointing: false } };
    const text = planText({ ...same, alternatives: bigger ? [bigger] : [] }, options);
    expect(text).toContain('Other batches that were tried:');
    expect(planText({ ...plan, alternatives: [] }, options)).not.toContain('What else there is');
  });
});
