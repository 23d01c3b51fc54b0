import { describe, expect, it } from 'vitest';
import type { ReadSource } from '../../estimate/estimate-work.js';
import {
  type AnyAnswer,
  type AnyTask,
  type EstimateTask,
  inThisThread,
  type LeastCapacityTask,
  type ReadTask,
} from '../../estimate/estimate-work.js';
import type { LeastCapacity } from '../../estimate/least-capacity.js';
import type { Estimate } from '../../estimate/types.js';
import { describeConfig } from '../../model/config/describe-config.js';
import { answerEstimate } from './answer-estimate.js';
import { answerPlan } from './answer-plan.js';
import type { AnswerMachine } from './machine.js';
import { fieldWording } from './wording.js';

/** A model that only a thread can see: a read in this thread finds no file. */
const elsewhere = '/no-such-folder/config.json';

function machineWith(asked: string[]): AnswerMachine {
  function work(task: EstimateTask): Promise<Estimate>;
  function work(task: ReadTask): Promise<ReadSource>;
  function work(task: LeastCapacityTask): Promise<LeastCapacity>;
  async function work(task: AnyTask): Promise<AnyAnswer> {
    asked.push(task.kind);
    if (task.kind !== 'read') return inThisThread(task);
    const description = describeConfig({ model_type: 'gpt2', n_layer: 2 }, task.path);
    return { model: { path: task.path, description }, config: task.path };
  }
  return {
    environment: {},
    folder: '/',
    gpusHere: async () => [],
    hostBytes: 64 * 2 ** 30,
    wording: fieldWording,
    work,
  };
}

const request = { model: elsewhere, batch: 1, seq: 64, method: 'formula' } as const;

describe('a model', () => {
  it('is read by the thread that estimates, never by the thread that answers', async () => {
    const asked: string[] = [];
    const { peak } = await answerEstimate(request, machineWith(asked));
    expect(peak.deviceBytes).toBeGreaterThan(0);
    expect(asked[0]).toBe('read');
    expect(asked).toContain('formula');
  });

  it('is read there for a plan, too', async () => {
    const asked: string[] = [];
    const plan = await answerPlan({ ...request, memoryBytes: 2 ** 34 }, machineWith(asked));
    expect(plan.fits).toBe(true);
    expect(asked[0]).toBe('read');
  });
});
