import { describe, expect, it } from 'vitest';
import { emptyQuestion, readQuestion } from './question-draft.js';

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

  it('needs a model, and for an estimate a batch', () => {
    expect(readQuestion(emptyQuestion, 'plan')).toEqual({ problems: { model: 'Name a model.' } });
    expect(readQuestion({ ...emptyQuestion, model: '/m' }, 'estimate')).toHaveProperty(
      'problems.batch',
    );
  });
});
