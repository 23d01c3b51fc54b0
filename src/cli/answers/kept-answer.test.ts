import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Estimate } from '../../estimate/types.js';
import type { PreparedAnswer } from '../../jobs/daemon/estimates/answer-key.js';
import { keptOrMade } from './kept-answer.js';

let folder: string;
let made: number;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'plimsoll-kept-'));
  made = 0;
  writeFileSync(join(folder, 'config.json'), '{}');
  mkdirSync(join(folder, 'project/inner'), { recursive: true });
  writeFileSync(join(folder, 'project/train.py'), 'import inner.net');
  writeFileSync(join(folder, 'project/inner/net.py'), 'width = 8');
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const answer = (method: Estimate['method'] = 'trace'): Estimate => ({
  method,
  peak: { allocatedBytes: 1, reservedBytes: 2, deviceBytes: 3, leastCapacityBytes: 2 },
  interval: { lowBytes: 1, highBytes: 3, confidence: 0.95 },
  breakdown: [{ part: 'weights', bytes: 3 }],
  notes: ['one'],
});
const prepared = (more: object = {}): PreparedAnswer => ({
  source: { kind: 'path', path: join(folder, 'config.json') },
  method: 'auto',
  ...more,
});
const script = () =>
  prepared({ source: { kind: 'script', path: join(folder, 'project/train.py'), args: [] } });

/** How often it was made, after this question. */
async function ask(
  more: {
    readonly prepared?: PreparedAnswer;
    readonly settings?: unknown;
    readonly environment?: Readonly<Record<string, string>>;
    readonly found?: Estimate;
  } = {},
): Promise<{ answer: Estimate; made: number }> {
  const found = await keptOrMade<Estimate>({
    prepared: more.prepared ?? prepared(),
    settings: more.settings ?? 'estimate',
    version: '1',
    place: {
      environment: { PLIMSOLL_HOME: join(folder, 'home'), ...more.environment },
      folder,
      python: join(folder, 'python'),
    },
    estimateIn: (one) => one,
    make: async () => {
      made += 1;
      return more.found ?? answer();
    },
  });
  return { answer: found, made };
}

describe('keptOrMade', () => {
  it('answers the same question once, and says that the answer was kept', async () => {
    expect((await ask()).answer).toEqual(answer());
    const again = await ask();
    expect(again.made).toBe(1);
    expect(again.answer).toEqual({ ...answer(), notes: ['one', expect.stringMatching(/^Kept/)] });
    expect((await ask()).answer.notes).toHaveLength(2);
  });

  it('answers anew when the question, a file or the environment is another', async () => {
    await ask();
    expect((await ask({ settings: 'savings' })).made).toBe(2);
    expect((await ask({ prepared: prepared({ gpu: 't4' }) })).made).toBe(3);
    expect((await ask({ environment: { PYTHONPATH: '/other' } })).made).toBe(4);
    expect((await ask({ environment: { EDITOR: 'vi' } })).made).toBe(4);
    writeFileSync(join(folder, 'config.json'), '{"n": 1}');
    expect((await ask()).made).toBe(5);
  });

  it('sees what changes in the folder of a script', async () => {
    await ask({ prepared: script() });
    expect((await ask({ prepared: script() })).made).toBe(1);
    writeFileSync(join(folder, 'project/inner/net.py'), 'width = 16');
    expect((await ask({ prepared: script() })).made).toBe(2);
  });

  it('keeps nothing of a formula, and of a model that changed meanwhile', async () => {
    await ask({ found: answer('formula') });
    expect((await ask({ found: answer('formula') })).made).toBe(2);
    expect((await ask({ prepared: prepared({ method: 'formula' }) })).made).toBe(3);
    expect((await ask({ prepared: prepared({ method: 'formula' }) })).made).toBe(4);
  });

  it('makes an answer again that was damaged', async () => {
    await ask();
    const answers = join(folder, 'home/answers');
    const [name = ''] = readdirSync(answers);
    const key = name.replace('.json', '');
    const at = '2026-11-15T12:00:00.000Z';
    const { notes: _, ...rest } = answer();
    for (const damaged of [{}, { ...answer(), peak: {} }, rest, { ...answer(), breakdown: 3 }]) {
      writeFileSync(join(answers, name), JSON.stringify({ schema: 1, key, at, answer: damaged }));
      expect((await ask()).answer).toEqual(answer());
    }
  });
});
