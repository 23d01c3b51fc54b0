import { describe, expect, it } from 'vitest';
import { analyseSnapshot } from '../../snapshot/analyse.js';
import {
  frames,
  madeSnapshot,
  type RecordedName,
  recorded,
} from '../../snapshot/made-snapshot-for-tests.js';
import { againstText, snapshotText } from './snapshot-text.js';

const options = { top: 3, columns: 100, style: { colour: false, unicode: true } };

async function textOf(name: RecordedName, columns = 100): Promise<string> {
  return snapshotText(analyseSnapshot(await recorded(name)), { ...options, columns });
}

/** Findings are wrapped; told here as one line. */
function unwrapped(text: string): string {
  return text.replaceAll(/\n {2}(?=\S)/g, ' ');
}

describe('the text of a snapshot', () => {
  it('begins with the leaks, where they come from and what hangs on them', async () => {
    const text = unwrapped(await textOf('leak'));
    expect(text).toContain(
      '- Leak: 12 tensors of forward (torch/nn/modules/linear.py:134), called from gpt2 (truth/snapshots.py:22) are never freed',
    );
    expect(text).toContain('24.0 MiB a step');
    expect(text).toContain('1,512 blocks hang on them');
    expect(text.indexOf('Leak')).toBeLessThan(text.indexOf('Fragmentation'));
  });

  it('explains why memory ran out, in full', async () => {
    const text = unwrapped(await textOf('oom'));
    expect(text).toContain('asked for 96.0 MiB with 3.9 GiB allocated of 4.0 GiB reserved');
    expect(text).toContain('the device had 135.1 GiB left, but a limit of the process');
    expect(text).toContain(
      'the most was held by: 1.7 GiB forward (transformers/activations.py:66)',
    );
  });

  it('says what would have helped, and that it is simulated', async () => {
    const text = unwrapped(await textOf('steady'));
    expect(text).toContain(
      'With expandable_segments:True this run would have reserved 8.1 GiB instead of 8.7 GiB at its peak. [simulated]',
    );
    expect(text).toContain('No leak: over 3 steps');
  });

  it('fits the terminal', async () => {
    for (const columns of [40, 80]) {
      const widest = (await textOf('leak', columns))
        .split('\n')
        .reduce((most, line) => Math.max(most, line.length), 0);
      expect(widest).toBeLessThanOrEqual(columns);
    }
  });

  it('lets no name of the file move the cursor', () => {
    const stack = frames('/app/\u001b[2Jevil.py:1 \u202ename');
    const snapshot = madeSnapshot([{ address: 512, blocks: [{ size: 512, stack }] }], []);
    const text = snapshotText(analyseSnapshot(snapshot), options);
    expect(text).toContain('name (app/[2Jevil.py:1)');
    for (const mark of ['\u001b', '\u202e']) expect(text).not.toContain(mark);
  });

  it('tells what is unknown without a recording', () => {
    const snapshot = madeSnapshot([{ address: 512, blocks: [{ size: 512 }] }], []);
    const text = snapshotText(analyseSnapshot(snapshot), options);
    expect(text).toContain('no recording, so the peak is unknown');
    expect(text).toContain('Leaks: unknown.');
  });

  it('tells what changed against another snapshot', async () => {
    const [leak, steady] = [await recorded('leak'), await recorded('steady')];
    const text = againstText(analyseSnapshot(leak), analyseSnapshot(steady), options);
    expect(text).toContain('allocated +358 MiB, reserved -1.9 GiB');
    expect(text).toMatch(/\+288 MiB {2}0 -> 12 +gpt2 \(truth\/snapshots\.py:22\)/);
  });
});
