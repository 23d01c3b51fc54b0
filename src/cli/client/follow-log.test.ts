import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JobView } from '../../jobs/daemon/types.js';
import { jobForTests, runningJobForTests } from '../../report/job-for-tests.js';
import { tailStart } from '../commands/logs.js';
import { followLog } from './follow-log.js';
import { openServerClient } from './server-client.js';
import { answerJson, answerLog, serverForTests } from './server-for-tests.js';

const succeeded = runningJobForTests({ state: 'succeeded', endedAt: '2026-11-15T09:00:06.000Z' });

describe('followLog', () => {
  it('writes what is printed, in whole letters, to the end of the job', async () => {
    const log = Buffer.from('one\ntwö\nthree\n');
    let looks = 0;
    let naps = 0;
    const server = await serverForTests((asked, response) => {
      if (asked.url.includes('/log')) {
        // A letter of two bytes is cut in between.
        const most = looks < 2 ? 7 : log.byteLength - (naps < 3 ? 6 : 0);
        answerLog(asked, response, log.subarray(0, most), 5);
      } else {
        looks += 1;
        answerJson(response, looks < 3 ? runningJobForTests() : succeeded);
      }
    });
    const states: string[] = [];
    const { signal } = new AbortController();
    let text = '';
    const ended = await followLog({
      client: openServerClient(server, signal),
      id: '12',
      from: 2,
      write: (part) => {
        text += part;
      },
      onJob: ({ state }: JobView) => states.push(state),
      notify: () => {},
      signal,
      // What comes after the end, the supervisor's summing up, is there after one more pause.
      sleep: async () => {
        naps += 1;
      },
    });
    expect(text).toBe('e\ntwö\nthree\n');
    expect(ended?.state).toBe('succeeded');
    expect(states).toEqual(['running', 'running', 'succeeded']);
  });

  it('waits for a server that is started anew, and loses nothing', async () => {
    const log = Buffer.from('before\nafter\n');
    const first = await serverForTests((asked, response) => {
      if (asked.url.includes('/log')) answerLog(asked, response, log.subarray(0, 7));
      else answerJson(response, runningJobForTests());
    });
    const { signal } = new AbortController();
    const notices: string[] = [];
    let text = '';
    let naps = 0;
    await followLog({
      client: openServerClient(first, signal),
      id: '12',
      from: 0,
      write: (part) => {
        text += part;
      },
      notify: (line) => notices.push(line),
      signal,
      async sleep() {
        naps += 1;
        if (naps === 1) await first.close();
        if (naps !== 4) return;
        await serverForTests((asked, response) => {
          if (asked.url.includes('/log')) answerLog(asked, response, log);
          else answerJson(response, succeeded);
        }, first.port);
      },
    });
    expect(text).toBe('before\nafter\n');
    expect(notices).toEqual([expect.stringContaining('does not answer'), 'The server is back.']);
  });

  it('is carried over what was dropped while it lagged behind, once', async () => {
    const note = '\nplimsoll: 990 bytes of this log were dropped here (8 to 998)\n';
    let looks = 0;
    const server = await serverForTests((asked, response) => {
      const from = Number(new URL(asked.url, 'http://x').searchParams.get('from'));
      const notices = (text: string, next: number) => {
        response.writeHead(200, { 'x-log-size': 1002, 'x-log-next': next });
        response.end(text);
      };
      if (!asked.url.includes('/log')) {
        looks += 1;
        answerJson(response, looks < 2 ? runningJobForTests() : succeeded);
      } else if (from === 0) notices('one\ntwo\nth', 10);
      else if (from < 998) notices(`${note}end\n`, 1002);
      else notices('', from);
    });
    const { signal } = new AbortController();
    let text = '';
    const ended = await followLog({
      client: openServerClient(server, signal),
      id: '12',
      from: 0,
      write: (part) => {
        text += part;
      },
      notify: () => {},
      signal,
      sleep: async () => {},
    });
    expect(text).toBe(`one\ntwo\nth${note}end\n`);
    expect(ended?.state).toBe('succeeded');
    const asked = server.asked.flatMap(({ url }) => /from=(\d+)/.exec(url)?.[1] ?? []);
    expect(asked).toEqual(['0', '10', '1002', '1002', '1002']);
  });

  it('does not ask for ever where an answer leads nowhere', async () => {
    for (const next of [0, -1, 'what']) {
      const server = await serverForTests((asked, response) => {
        if (!asked.url.includes('/log')) return answerJson(response, runningJobForTests());
        response.writeHead(200, { 'x-log-size': 9, 'x-log-next': next });
        return response.end('bytes');
      });
      const { signal } = new AbortController();
      const client = openServerClient(server, signal);
      const following = followLog({ client, id: '12', from: 0, write() {}, notify() {}, signal });
      await expect(following).rejects.toMatchObject({ code: 'no-plimsoll-server' });
    }
  });

  it('ends when it is told to, and does not fetch what is not wanted', async () => {
    const server = await serverForTests((_, response) => answerJson(response, jobForTests()));
    const stop = new AbortController();
    const ended = await followLog({
      client: openServerClient(server, stop.signal),
      id: '12',
      from: 0,
      notify: () => {},
      signal: stop.signal,
      sleep: async () => stop.abort(),
    });
    expect(ended).toBeUndefined();
    expect(server.asked.map(({ url }) => url)).toEqual(['/jobs/12']);
  });

  it('ends with the error where the job is gone', async () => {
    const error = { code: 'unknown-job', fact: 'There is no job 12.', next: 'Look.' };
    const server = await serverForTests((_, response) => answerJson(response, { error }, 404));
    const { signal } = new AbortController();
    const following = followLog({
      client: openServerClient(server, signal),
      id: '12',
      from: 0,
      notify: () => {},
      signal,
    });
    await expect(following).rejects.toMatchObject({ code: 'unknown-job' });
  });
});

describe('tailStart', () => {
  it('finds the last lines, whatever the log is and however it comes in parts', async () => {
    const line = fc.string({ maxLength: 20 }).map((text) => text.replaceAll('\n', ''));
    await fc.assert(
      fc.asyncProperty(
        fc.array(line, { maxLength: 30 }),
        fc.boolean(),
        fc.integer({ min: 1, max: 40 }),
        async (lines, ends, wanted) => {
          const text = lines.join('\n') + (ends && lines.length > 0 ? '\n' : '');
          const log = Buffer.from(text);
          const read = async (from: number) => ({
            bytes: log.subarray(from),
            next: log.byteLength,
          });
          const start = await tailStart(read, log.byteLength, wanted);
          const whole = text.endsWith('\n') ? text.slice(0, -1) : text;
          const expected = whole.split('\n').slice(-wanted).join('\n');
          expect(log.subarray(start).toString()).toBe(expected + text.slice(whole.length));
        },
      ),
    );
  });

  it('looks no further back than to where a part is missing', async () => {
    const note = '\nplimsoll: dropped\n';
    const [kept, size] = [Buffer.from('seven\neight\nnine\n'), 10_000_000_000];
    const first = size - kept.byteLength;
    let reads = 0;
    const read = async (from: number) => {
      reads += 1;
      const bytes = from < first ? Buffer.concat([Buffer.from(note), kept]) : kept;
      return { bytes: from <= first ? bytes : kept.subarray(from - first), next: size };
    };
    expect(await tailStart(read, size, 1)).toBe(size - 5);
    expect(await tailStart(read, size, 3)).toBe(first);
    // More than are left: from before them, so that it is said that more were there.
    expect(await tailStart(read, size, 50)).toBeLessThan(first);
    expect(reads).toBe(3);
  });

  it('reads a large log from its end', async () => {
    const log = Buffer.from(`${'x'.repeat(200)}\n`.repeat(10_000));
    const reads: number[] = [];
    const read = async (from: number) => {
      reads.push(from);
      const bytes = log.subarray(from, from + 1024 * 1024);
      return { bytes, next: from + bytes.byteLength };
    };
    const start = await tailStart(read, log.byteLength, 500);
    expect(start).toBe(log.byteLength - 500 * 201);
    expect(Math.min(...reads)).toBeGreaterThan(log.byteLength / 2);
  });
});
