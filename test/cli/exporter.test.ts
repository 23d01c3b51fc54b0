import { once } from 'node:events';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { get } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type Running, useCommand } from './command.js';

const command = useCommand();

interface Ready {
  readonly place: string;
  readonly devices: readonly { readonly id: string; readonly provenance: string }[];
}

/** Starts an exporter, does something with it, and answers how it ended after SIGTERM. */
async function withExporter(
  argv: readonly string[],
  act: (ready: Ready) => Promise<void>,
): ReturnType<typeof command.run> {
  let acting: Promise<void> | undefined;
  const ended = command.run(['exporter', '--json', '--simulate', 'steady', ...argv], {
    onOutput({ stdout }, running: Running) {
      if (acting !== undefined || !stdout.endsWith('\n')) return;
      acting = act(JSON.parse(stdout)).finally(() => running.kill('SIGTERM'));
    },
  });
  const result = await ended;
  await acting;
  return result;
}

/** Sends requests in one write; all that came once there are so many pages, or it was closed. */
async function answersTo(place: string, requests: string, pages: number): Promise<string> {
  const socket = connect(Number(new URL(place).port), '127.0.0.1');
  socket.write(requests);
  let text = '';
  try {
    for await (const piece of socket) {
      text += String(piece);
      if (pagesIn(text) === pages) break;
    }
  } catch {
    // A connection that is cut may end in a reset.
  }
  return text;
}

/** It ends with this figure. */
function pagesIn(text: string): number {
  return text.match(/^process_start_time_seconds \d/gm)?.length ?? 0;
}

describe('plimsoll exporter', () => {
  it('answers Prometheus on loopback, other requests with what to do, and ends with 0', async () => {
    const { exitCode, stderr } = await withExporter(
      ['--port', '0', '--node', 'n7'],
      async (ready) => {
        expect(ready.devices.map(({ id, provenance }) => `${id} ${provenance}`)).toContain(
          'gpu:0 simulated',
        );
        const { origin } = new URL(ready.place);
        const page = await fetch(ready.place);
        expect(page.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
        const text = await page.text();
        expect(text).toContain('plimsoll_node_info{node="n7"');
        expect(text).toMatch(/^plimsoll_device_used_bytes\{device="gpu:0",.*"simulated"\} \d+$/m);
        expect(text).toMatch(/^plimsoll_device_used_bytes\{device="host",.*"measured"\} \d+$/m);
        const statuses = await Promise.all([
          fetch(`${origin}/`),
          fetch(`${origin}/jobs`),
          fetch(ready.place, { method: 'POST' }),
          fetch(ready.place, { method: 'HEAD' }),
        ]);
        expect(statuses.map(({ status }) => status)).toEqual([200, 404, 405, 200]);
        // A page in a browser that points its own name at this machine.
        const foreign = get(ready.place, { headers: { host: 'evil.example' } });
        const [answer] = await once(foreign, 'response');
        answer.resume();
        expect(answer.statusCode).toBe(403);
      },
    );
    expect([exitCode, stderr]).toEqual([0, '']);
  });

  it('renders one page for requests that come at once, and closes who asks too far ahead', async () => {
    await withExporter(['--port', '0'], async ({ place }) => {
      const request = 'GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n';
      const all = await answersTo(place, request.repeat(8), 8);
      // The processor time of the exporter is another in each page that is rendered.
      const times = all.match(/^process_cpu_seconds_total .*$/gm) ?? [];
      expect(times).toHaveLength(8);
      expect(new Set(times).size).toBeLessThan(8);
      const cut = await answersTo(place, request.repeat(200), 200);
      expect(pagesIn(cut)).toBeLessThan(200);
      expect((await fetch(place)).status).toBe(200);
    });
  });

  it('makes room for one who asks where others hold all connections', async () => {
    await withExporter(['--port', '0'], async ({ place }) => {
      const { port } = new URL(place);
      const idle = Array.from({ length: 100 }, () => connect(Number(port), '127.0.0.1'));
      for (const socket of idle) socket.on('error', () => {});
      await Promise.all(idle.map((socket) => once(socket, 'connect')));
      // Long before the idle ones are closed for their silence.
      const answer = await fetch(place, { signal: AbortSignal.timeout(20_000) }).catch(String);
      for (const socket of idle) socket.destroy();
      expect(answer).toMatchObject({ status: 200 });
    });
  });

  it('asks for the token of a file that only its user can read', async () => {
    const token = 'a-token-for-the-exporter';
    const file = join(command.folder(), 'token');
    writeFileSync(file, `${token}\n`);
    chmodSync(file, 0o600);
    await withExporter(['--port', '0', '--token-file', file], async ({ place }) => {
      expect((await fetch(place)).status).toBe(401);
      const wrong = { authorization: 'Bearer another-token-of-some-length' };
      expect((await fetch(place, { headers: wrong })).status).toBe(401);
      const right = { authorization: `Bearer ${token}` };
      expect((await fetch(place, { headers: right })).status).toBe(200);
    });
    chmodSync(file, 0o644);
    const { exitCode, stderr } = await command.run(['exporter', '--token-file', file]);
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining('token-file-readable')]);
  });

  it('writes a file for node_exporter instead, whole at every moment', async () => {
    const file = join(command.folder(), 'plimsoll.prom');
    const config = join(command.folder(), 'quick.json');
    writeFileSync(config, JSON.stringify({ processIntervalSeconds: 0.1 }));
    const { exitCode } = await withExporter(
      ['--textfile', file, '--config', config],
      async ({ place }) => {
        expect(place).toBe(file);
        for (;;) {
          try {
            const text = readFileSync(file, 'utf8');
            expect(text).toContain('plimsoll_node_info');
            expect(text.endsWith('\n')).toBe(true);
            return;
          } catch (error) {
            if (!(error instanceof Error && 'code' in error && error.code === 'ENOENT'))
              throw error;
            await new Promise((resolve) => setTimeout(resolve, 20));
          }
        }
      },
    );
    expect(exitCode).toBe(0);
    const nowhere = await command.run(['exporter', '--textfile', '/nowhere/x.prom']);
    expect([nowhere.exitCode, nowhere.stderr]).toEqual([
      2,
      expect.stringContaining('cannot-write'),
    ]);
  });

  it('refuses a bad port and a port in use', async () => {
    expect((await command.run(['exporter', '--port', '70000'])).exitCode).toBe(2);
    await withExporter(['--port', '0'], async ({ place }) => {
      const { port } = new URL(place);
      const second = await command.run(['exporter', '--port', port]);
      expect([second.exitCode, second.stderr]).toEqual([2, expect.stringContaining('port-in-use')]);
    });
  });
});
