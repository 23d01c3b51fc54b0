import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { recordedPath, recordedTruth } from '../../snapshot/made-snapshot-for-tests.js';
import type { CliIo, Output } from '../io.js';
import { runProgram } from '../program.js';

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
