import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { analyseSnapshot } from '../../snapshot/analyse.js';
import {
  frames,
  madeSnapshot,
  type RecordedName,
  recorded,
  recordedPath,
  recordedTruth,
} from '../../snapshot/made-snapshot-for-tests.js';
import type { CliIo, Output } from '../io.js';
import { runProgram } from '../program.js';
import { againstText, snapshotText } from './snapshot.js';

const folder = mkdtempSync(join(tmpdir(), 'plimsoll-snapshot-cli-'));
afterAll(() => rmSync(folder, { recursive: true }));

function outputTo(written: string[]): Output {
  return {
    isTerminal: false,
    colour: false,
    columns: () => 100,
    closed: new AbortController().signal,
    failure: undefined,
    write: (text) => written.push(text),
    drained: () => Promise.resolve(),
  };
}

async function run(...argv: readonly string[]): Promise<{ exitCode: number; stdout: string }> {
  const stdout: string[] = [];
  const io: CliIo = { environment: {}, folder, stdout: outputTo(stdout), stderr: outputTo([]) };
  const exitCode = await runProgram(['snapshot', ...argv], io, '1.2.3');
  return { exitCode, stdout: stdout.join('') };
}

describe('plimsoll snapshot', () => {
  it.each([
    ['steady', 0],
    ['leak', 1],
    ['oom', 0],
  ] as const)('answers by contract: %s', async (name, expected) => {
    const { exitCode, stdout } = await run(recordedPath(name), '--json');
    expect(exitCode).toBe(expected);
    const answer = JSON.parse(stdout);
    const { outOfMemory, ...truth } = recordedTruth[name];
    expect(answer).toMatchObject(truth);
    expect(answer.outOfMemory).toHaveLength(outOfMemory);
    expect(answer).toMatchObject({
      activeBytes: truth.allocatedBytes,
      fragmentation: expect.any(Number),
      events: expect.any(Number),
      top: expect.arrayContaining([
        { bytes: expect.any(Number), count: expect.any(Number), stack: expect.any(Array) },
      ]),
    });
    expect(answer.segments[0].address).toMatch(/^0x[0-9a-f]+$/);
    const leaked = answer.leaks.reduce(
      (sum: number, leak: { count: number }) => sum + leak.count,
      0,
    );
    expect(leaked).toBe(name === 'leak' ? 24 : 0);
  });

  it('compares, lists as many as it is told, and writes a page', async () => {
    const page = join(folder, 'page.html');
    const { exitCode, stdout } = await run(
      recordedPath('oom'),
      '--against',
      recordedPath('steady'),
      '--top',
      '2',
      '--html',
      page,
      '--json',
    );
    const answer = JSON.parse(stdout);
    expect(exitCode).toBe(0);
    expect(answer.top).toHaveLength(2);
    expect(answer.against.allocatedBytes).toBe(533227520 - 1580356096);
    expect(answer.against.stacks).toHaveLength(2);
    expect(readFileSync(page, 'utf8')).toContain('<title>Memory snapshot');
  });

  it('says where the page went', async () => {
    const page = join(folder, 'told.html');
    const { stdout } = await run(recordedPath('steady'), '--html', page);
    expect(stdout).toMatch(new RegExp(`\\nWritten to ${page}\\.\\n$`));
  });

  it('replays with the settings that are asked for', async () => {
    const settings = ['--what-if', 'expandable_segments:True', '--what-if', 'max_split_size_mb:64'];
    const { stdout } = await run(recordedPath('oom'), ...settings, '--json');
    const confs = JSON.parse(stdout).whatIf.others.map((other: { conf: string }) => other.conf);
    expect(confs).toEqual(['expandable_segments:True', 'max_split_size_mb:64']);
  });

  it('refuses a pickle that would run code, and a device that is none', async () => {
    const path = join(folder, 'evil.pickle');
    writeFileSync(path, '\u0080\u0002cos\nsystem\n(U\u0002lstR.', 'latin1');
    await expect(run(path)).rejects.toMatchObject({ code: 'unsafe-pickle', exitCode: 2 });
    await expect(run(recordedPath('oom'), '--device', 'x')).rejects.toMatchObject({
      code: 'bad-option',
    });
    await expect(run(recordedPath('oom'), '--device', '7')).rejects.toMatchObject({
      code: 'unknown-device',
    });
  });
});

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
