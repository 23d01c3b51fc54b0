import { describe, expect, it } from 'vitest';
import { parseRecordedTrace } from '../../device/recorded-trace.js';
import { fakeState } from '../../report/state-for-tests.js';
import { TraceRecorder } from './profile.js';

function samplesOf(id: string, kind: 'gpu' | 'host', allocatorLimit?: number) {
  return [1, 2, 3].map((second) => {
    const used = [second * 1000];
    const recipe = { info: { id, kind }, totalBytes: 9000, seconds: [second], used };
    const with3 = { allocated: [second * 10], reserved: [second * 100], allocatorLimit };
    return fakeState(allocatorLimit === undefined ? recipe : { ...recipe, ...with3 }).latest;
  });
}

describe('TraceRecorder', () => {
  it('writes what replay reads: the only GPU, with its allocator', () => {
    const recorder = new TraceRecorder();
    for (const sample of samplesOf('gpu:0', 'gpu', 5000)) recorder.take(sample);
    for (const sample of samplesOf('host', 'host')) recorder.take(sample);
    const [file, ...others] = recorder.files('out/trace.json');
    expect(others).toEqual([]);
    expect(file).toMatchObject({ path: 'out/trace.json', id: 'gpu:0' });
    const trace = parseRecordedTrace(file?.text ?? '', 'text');
    expect(trace.capacityBytes).toBe(5000);
    expect(trace.rows).toEqual(
      [1, 2, 3].map((n) => ({
        seconds: n,
        deviceUsedBytes: n * 1000,
        allocatedBytes: n * 10,
        reservedBytes: n * 100,
      })),
    );
  });

  it('names a file for each of several devices', () => {
    const recorder = new TraceRecorder();
    for (const id of ['gpu:0', 'gpu:1/mig:2']) {
      for (const sample of samplesOf(id, 'gpu')) recorder.take(sample);
    }
    expect(recorder.files('trace.json').map(({ path }) => path)).toEqual([
      'trace.gpu-0.json',
      'trace.gpu-1-mig-2.json',
    ]);
  });

  it('leaves out what is not known, and times that do not rise', () => {
    const recorder = new TraceRecorder();
    const [first, second] = samplesOf('gpu:0', 'gpu');
    if (first === undefined || second === undefined) throw new Error('no samples');
    recorder.take({ ...first, usedBytes: 'unknown' });
    expect(recorder.files('t.json')).toEqual([]);
    for (const sample of [second, first, second]) recorder.take(sample);
    const trace = parseRecordedTrace(recorder.files('t.json')[0]?.text ?? '', 'text');
    expect(trace.rows.map(({ seconds }) => seconds)).toEqual([2]);
  });
});
