import { describe, expect, it } from 'vitest';
import { emptyQuestion, openQuestion, questionFieldOf, readQuestion } from './question-draft.js';

const asked = { ...emptyQuestion, model: '/m', memory: '8GiB', batch: '4', maxBatch: 'yes' };

describe('a question about a model', () => {
  it('has a budget only where it is a plan', () => {
    expect(readQuestion(asked, 'plan')).toEqual({
      question: {
        model: '/m',
        mode: 'train',
        batch: 4,
        memoryBytes: 8 * 1024 ** 3,
        maxBatch: true,
      },
    });
    expect(readQuestion(asked, 'estimate')).toEqual({
      question: { model: '/m', mode: 'train', batch: 4 },
    });
  });

  it.each(['plan', 'estimate'] as const)('needs a model and nothing else: %s', (kind) => {
    expect(readQuestion(emptyQuestion, kind)).toEqual({ problems: { model: 'Name a model.' } });
    expect(openQuestion(emptyQuestion, kind)).toBeUndefined();
    const question = { model: '/m', mode: 'train' };
    expect(readQuestion({ ...emptyQuestion, model: '/m' }, kind)).toEqual({ question });
    expect(openQuestion({ ...emptyQuestion, model: '/m' }, kind)).toEqual(question);
  });

  it.each([
    ['memoryBytes', 'memory'],
    ['gpu', 'gpu'],
    ['maxModelLen', 'maxModelLen'],
    ['parallel', undefined],
    ['toString', undefined],
    [undefined, undefined],
  ])('shows a refusal about %s at %s', (field, shown) => {
    expect(questionFieldOf({ field })).toBe(shown);
  });

  it('asks what the mode of an estimate is about, and nothing else that was typed', () => {
    const text = { ...asked, mode: 'generate', prompt: '512', new: '256', optimizer: 'sgd' };
    expect(readQuestion(text, 'estimate')).toEqual({
      question: { model: '/m', mode: 'generate', batch: 4, prompt: 512, new: 256 },
    });
    expect(readQuestion({ ...text, new: '' }, 'estimate')).toHaveProperty('problems.new');
    const served = { ...asked, mode: 'serve', engine: 'vllm', gpuMemoryUtilization: '0.8' };
    expect(readQuestion(served, 'estimate')).toEqual({
      question: { model: '/m', mode: 'serve', engine: 'vllm', gpuMemoryUtilization: 0.8 },
    });
    expect(readQuestion({ ...served, gpuMemoryUtilization: '8' }, 'estimate')).toHaveProperty(
      'problems.gpuMemoryUtilization',
    );
  });

  it('is one of inference where a plan is asked with a mode of estimates', () => {
    expect(readQuestion({ ...asked, mode: 'serve' }, 'plan')).toMatchObject({
      question: { mode: 'infer', batch: 4 },
    });
  });
});
