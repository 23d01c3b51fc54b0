import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { PlanDocument } from '../../src/plan/answers/answer-plan.js';
import { needsTorch, tracingPython } from '../support/needs.js';
import { useCommand } from './command.js';

const command = useCommand();

/** 32 million parameters, most of them in the embedding: weights and states decide, not activations. */
const model = {
  model_type: 'gpt2',
  architectures: ['GPT2LMHeadModel'],
  n_layer: 2,
  n_embd: 512,
  n_head: 8,
  n_positions: 64,
  vocab_size: 50_257,
};

describe('plimsoll plan --gpus', { ...needsTorch, tags: 'rest' }, () => {
  it('says the same in its settings and in how the GPUs share the training', async () => {
    const asked =
      '--gpus 4 --batch 12 --seq 32 --allocator-memory 900MiB --gpu h200 --train --json';
    const config = join(command.folder(), 'config.json');
    writeFileSync(config, JSON.stringify(model));
    const words = ['plan', config, '--python', tracingPython, ...asked.split(' ')];
    const { stdout, stderr } = await command.run(words);
    expect(stderr).toBe('');
    const plan: PlanDocument = JSON.parse(stdout);
    const { chosen, tried = [] } = plan.sharding ?? {};
    expect(tried[0]).toMatchObject({ parallel: { way: 'ddp' }, fit: 'no' });
    expect(chosen).toMatchObject({ parallel: { way: 'fsdp2' }, fit: 'surely' });
    expect([plan.fits, plan.surely, plan.estimate.method]).toEqual([true, true, 'trace']);
    expect(plan.estimate.peak).toEqual(chosen?.peak);
    const { settings } = plan;
    expect(settings.zero).toBe(chosen?.parallel.reshard === false ? 2 : 3);
    expect([settings.batch, settings.accumulation]).toEqual([chosen?.batch, chosen?.accumulation]);
    expect(settings.batch * settings.accumulation * settings.gpus).toBe(12);
    // DDP is "without ZeRO" there.
    const copies = plan.alternatives.filter(({ settings: { zero } }) => zero === 0);
    expect(copies.map(({ fits }) => fits)).toEqual([false]);
  });
});
