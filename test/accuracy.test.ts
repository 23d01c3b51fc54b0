import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readCases, truthFolders } from '../bench/accuracy/cases.mjs';
import { findGpu } from '../src/estimate/cards/gpus.js';
import { pythonTrace } from '../src/estimate/trace/python-trace.js';
import { tracedEstimate, tracedGpu } from '../src/estimate/trace/traced-estimate.js';
import { needsTorch, tracingPython } from './support/needs.js';
import { root } from './support/project-files.js';

/**
 * Kinds that python/tests/tracing/test_command.py has not, the quickest of each; all are held against
 * the truth by `npm run bench accuracy`.
 */
const sample = [
  { id: 'bert-base/infer/b2/s512/amp-bf16', off: 0.005 },
  { id: 'lstm-2x1024/train/b16/s128/fp32/adamw', off: 0.005 },
  { id: 't5-base/train/b2/s256/bf16/sgd', off: 0.005 },
  // What a convolution takes for itself is cuDNN's choice, which is not everywhere to be asked.
  { id: 'mobilenet_v3/train/b16/s224/amp-bf16/sgd-momentum', off: 0.05 },
];

const cases = readCases(join(root, 'bench/truth/peaks.json'), truthFolders);

it('finds the model of every measured run', () => {
  expect(cases).toHaveLength(93);
  expect(new Set(cases.map(({ source }) => source.kind)).size).toBe(3);
});

describe('an estimate against what an H200 measured', { ...needsTorch, tags: 'rest' }, () => {
  it.each(sample)('$id', async ({ id, off }) => {
    const found = cases.find((one) => one.id === id);
    if (found === undefined) throw new Error(`there is no case ${id}`);
    const { source, workload, measured } = found;
    const options = { python: tracingPython, environment: process.env, folder: root };
    const trace = await pythonTrace(source, workload, options);
    const { peak, interval } = await tracedEstimate(trace, findGpu(tracedGpu));
    expect(trace.parameters).toBe(measured.params);
    expect(Math.abs(peak.reservedBytes / measured.peak_reserved - 1)).toBeLessThan(off);
    expect(Math.abs(peak.allocatedBytes / measured.peak_allocated - 1)).toBeLessThan(off);
    expect(interval.lowBytes).toBeLessThanOrEqual(measured.peak_reserved);
    expect(interval.highBytes).toBeGreaterThanOrEqual(measured.peak_reserved);
  });
});
