import { describe, expect, it } from 'vitest';
import type { RunReport } from '../../run/types.js';
import { GiB } from '../../units/bytes.js';
import { runReport } from '../job-for-tests.js';
import { renderRunHtml } from '../run-html.js';
import { nextCommand, runEnding } from './run-ending.js';

const plain = { columns: 80, style: { colour: false, unicode: true } };
const [first] = runReport.attempts;
if (first === undefined) throw new Error('the report of the tests has no attempt');
const failed: RunReport = {
  ...runReport,
  outcome: 'failed',
  exitCode: 1,
  command: ['python', 'train.py', '--batch-size', '8'],
  attempts: [
    {
      ...first,
      snapshot: { file: '/tmp/a b.pickle', findings: ['3.1 GiB are held by train.py:12.'] },
      memory: [0, 1, 2, 3].map((n) => ({ atSeconds: n, bytes: n * 2 * GiB })),
      lastLines: ['step 1', 'OutOfMemoryError: \u001B[2JCUDA out of memory'],
    },
  ],
};

describe('the end of a run that failed for memory', () => {
  it('tells what held it, the curve, the last lines, and one command', () => {
    const text = runEnding(failed, plain) ?? '';
    expect(text).toContain('Attempt 1 ran out of memory: out of memory (cuda).');
    expect(text).toContain('  - 3.1 GiB are held by train.py:12.');
    expect(text).toContain('Memory over 3.0 s, measured (limit 8.0 GiB, highest sample 6.0 GiB):');
    expect(text).toContain('█');
    expect(text).toContain('  | OutOfMemoryError: [2JCUDA out of memory');
    expect(text.split('\n').slice(-2)).toEqual([
      'Try next:',
      "  plimsoll snapshot '/tmp/a b.pickle'",
    ]);
    expect(text).not.toContain('\u001B');
  });

  it('without a snapshot names the largest processes, as they were last read', () => {
    const holders = {
      atSeconds: 29.5,
      totalBytes: 7 * GiB,
      othersBytes: GiB,
      processes: [
        { pid: 11, command: 'python train.py \u001B[2J--batch-size 8', bytes: 6 * GiB },
        { pid: 12, command: 'unknown' as const, bytes: GiB },
      ],
    };
    const without = { ...failed, attempts: [{ ...first, holders }] };
    const text = runEnding(without, plain) ?? '';
    expect(text).toContain('What held the memory of gpu:0, read 0.5 s before the end:');
    expect(text).toContain('    6.0 GiB  python train.py [2J--batch-size 8 (pid 11)');
    expect(text).toContain('    1.0 GiB  unknown program (pid 12)');
    expect(text).toContain('together: 7.0 GiB. Other programs on gpu:0: 1.0 GiB.');
    expect(text).not.toContain('came after');
    const page = renderRunHtml(without);
    expect(page).toContain('What held the memory of gpu:0, read 0.5 s before the end:');
    expect(page).toContain('python train.py');
    const small = { ...holders, totalBytes: GiB };
    expect(runEnding({ ...failed, attempts: [{ ...first, holders: small }] }, plain)).toContain(
      'The rest, up to 8.0 GiB, came after this reading.',
    );
  });

  it('is in the page of the report, too', () => {
    const page = renderRunHtml(failed);
    expect(page).toContain('The last lines of the program');
    expect(page).toContain('step 1\nOutOfMemoryError:  [2JCUDA out of memory\n</pre>');
    expect(page).toContain('Memory over 3.0 s, highest sample 6.0 GiB');
    expect(page).toContain('Try next');
  });

  it('is not told of a run that succeeded, or failed for another reason', () => {
    expect(runEnding(runReport, plain)).toBeUndefined();
    const other = { ...failed, attempts: [{ ...first, outOfMemory: null }] };
    expect(runEnding(other, plain)).toBeUndefined();
    expect(renderRunHtml(other)).not.toContain('Try next');
  });

  it('names the command that is most likely to help', () => {
    const tryNext = 'plimsoll run --adapt --memory 8GiB -- python train.py --batch-size 8';
    expect(nextCommand({ ...failed, tryNext })).toBe(tryNext);
    const bare = { ...failed, attempts: [{ ...first, snapshot: null }] };
    expect(nextCommand(bare)).toBe('plimsoll estimate -- python train.py --batch-size 8');
    const command = ['python', 'train.py', '--batch-size', '{batch_size}'];
    const last = { ...first, snapshot: null, command: ['python', 'train.py', '--batch-size', '1'] };
    expect(nextCommand({ ...failed, command, attempts: [last] })).toBe(
      'plimsoll estimate -- python train.py --batch-size 1',
    );
  });
});
