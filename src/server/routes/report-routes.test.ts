import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Failure } from '../../failure.js';
import { attemptForTests } from '../../report/job-for-tests.js';
import { errorOf, startTestServer, type TestServer } from '../server-for-tests.js';

let server: TestServer;
const asked: string[] = [];

beforeEach(async () => {
  asked.length = 0;
  server = await startTestServer({
    snapshotPage(file) {
      asked.push(file);
      if (file !== '/runs/left.pickle') {
        const parts = { fact: 'It is gone.', next: 'Run it again.' };
        throw new Failure({ kind: 'input', code: 'snapshot-gone', ...parts });
      }
      return Promise.resolve(Uint8Array.from(Buffer.from('<h1>held</h1>')));
    },
  });
  const snapshot = { file: '/runs/left.pickle', findings: [] };
  const { id } = await server.daemon.submit({ command: ['true'], name: 'heap' });
  server.daemon.change(id, {
    state: 'failed',
    reason: 'It ran out of memory once.',
    startedAt: '2026-01-01T00:00:01.000Z',
    endedAt: '2026-01-01T00:01:01.000Z',
    attempts: [
      attemptForTests({ number: 1, snapshot }),
      attemptForTests({ number: 2, snapshot: { ...snapshot, file: '/runs/gone.pickle' } }),
      attemptForTests({ number: 3, snapshot: null }),
    ],
  });
});
afterEach(() => server.close());

describe('pages that a job leaves', () => {
  it('are its report, kept apart from the dashboard', async () => {
    const answer = await server.ask('/jobs/1/report');
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(answer.headers.get('content-security-policy')).toMatch(
      /^sandbox allow-scripts; default-src 'none'/,
    );
    expect(await answer.text()).toContain('It ran out of memory once.');
    expect(await errorOf(server.ask('/jobs/9/report'))).toBe('404 unknown-job');
  });

  it('are the snapshots that its own attempts named, and no other file', async () => {
    const answer = await server.ask('/jobs/1/snapshots/1');
    expect([answer.status, await answer.text()]).toEqual([200, '<h1>held</h1>']);
    expect(answer.headers.get('content-security-policy')).toContain('sandbox');
    expect(await errorOf(server.ask('/jobs/1/snapshots/2'))).toBe('404 snapshot-gone');
    expect(await errorOf(server.ask('/jobs/1/snapshots/3'))).toBe('404 no-snapshot');
    expect(await errorOf(server.ask('/jobs/1/snapshots/4'))).toBe('404 no-snapshot');
    expect(await errorOf(server.ask('/jobs/1/snapshots/..%2F1'))).toBe('400 bad-option');
    expect(asked).toEqual(['/runs/left.pickle', '/runs/gone.pickle']);
  });
});
