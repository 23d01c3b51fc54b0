import { connect, type Socket } from 'node:net';
import { z } from '@hono/zod-openapi';
import { systemClock } from '../time/clock.js';
import { createFakeDaemon, type FakeDaemon } from './fake-daemon-for-tests.js';
import { type OpenServer, openServer, type ServerOptions } from './open-server.js';
import {
  assumptionsExample,
  estimateExample,
  namesExample,
  planExample,
} from './routes/examples.js';
import { fleetExample } from './routes/fleet-routes.js';
import type { Answers } from './routes/operation.js';

export interface TestServer extends OpenServer {
  readonly daemon: FakeDaemon;
  readonly lines: readonly string[];
  ask(path: string, init?: RequestInit): Promise<Response>;
  send(method: string, path: string, body: unknown): Promise<Response>;
}

/** Each question gets the example of the document. */
export const exampleAnswers: Answers = {
  estimate: () => Promise.resolve(estimateExample),
  plan: () => Promise.resolve(planExample),
  estimateAssumptions: () => Promise.resolve(assumptionsExample.assumptions),
  planAssumptions: () => Promise.resolve(assumptionsExample.assumptions),
  names: () => Promise.resolve(namesExample),
};

/** A server that really listens, on a free port, over a daemon in memory. */
export async function startTestServer(options: Partial<ServerOptions> = {}): Promise<TestServer> {
  const daemon = createFakeDaemon();
  const lines: string[] = [];
  const server = await openServer({
    daemon,
    answers: exampleAnswers,
    host: '127.0.0.1',
    port: 0,
    fleet: () => Promise.resolve(fleetExample),
    version: '1.2.3',
    clock: systemClock,
    log: (line) => lines.push(line),
    ...options,
  });
  const ask = (path: string, init?: RequestInit): Promise<Response> =>
    fetch(`http://127.0.0.1:${server.port}${path}`, init);
  return {
    ...server,
    daemon,
    lines,
    ask,
    send: (method, path, body) =>
      ask(path, {
        method,
        headers: { 'content-type': 'application/json' },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
  };
}

/** `404 unknown-job`; throws where it is no error as every error of the server must be. */
export async function errorOf(answer: Promise<Response> | Response): Promise<string> {
  const response = await answer;
  const text = await response.text();
  const { error } = z
    .strictObject({
      schema: z.literal(1),
      error: z.strictObject({
        code: z.string(),
        fact: z.string(),
        next: z.string(),
        field: z.string().optional(),
      }),
    })
    .parse(JSON.parse(text));
  return `${response.status} ${error.code}`;
}

/** A connection on which anything can be said, HTTP or not. */
export interface RawConnection {
  readonly socket: Socket;
  /** All that came so far. */
  text(): string;
  /** Resolves when what came matches. */
  until(pattern: RegExp): Promise<string>;
  /** Resolves with all that came when the other side has closed. */
  closed: Promise<string>;
}

export function openRaw(port: number, firstWords = ''): RawConnection {
  const socket = connect({ port, host: '127.0.0.1' });
  let text = '';
  let wake: (() => void) | undefined;
  socket.setEncoding('utf8');
  socket.on('data', (chunk) => {
    text += String(chunk);
    wake?.();
  });
  // A reset by the server is what some tests provoke.
  socket.on('error', () => undefined);
  const closed = new Promise<string>((resolve) => {
    socket.on('close', () => {
      wake?.();
      resolve(text);
    });
  });
  if (firstWords !== '') socket.write(firstWords);
  return {
    socket,
    text: () => text,
    closed,
    async until(pattern) {
      while (!pattern.test(text)) {
        if (socket.destroyed) throw new Error(`closed before ${pattern} came: ${text}`);
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      return text;
    },
  };
}

/** One request, written by hand; `text` is the head without its last empty line. */
export function rawRequest(port: number, head: string, body = ''): RawConnection {
  return openRaw(port, `${head.replaceAll('\n', '\r\n')}\r\n\r\n${body}`);
}

export interface SentEvent {
  readonly event: string;
  readonly id: string | undefined;
  readonly data: unknown;
}

/** A client of `GET /events` that reads what comes. */
export function openEvents(
  port: number,
  path = '/events',
  headers = '',
): RawConnection & {
  events(): readonly SentEvent[];
  untilEvents(count: number): Promise<readonly SentEvent[]>;
} {
  const raw = rawRequest(port, `GET ${path} HTTP/1.1\nHost: localhost${headers}`);
  const events = (): readonly SentEvent[] => parseEvents(raw.text());
  return {
    ...raw,
    events,
    async untilEvents(count) {
      for (let seen = count; ; seen += 1) {
        const found = events();
        if (found.length >= count) return found;
        const length = raw.text().length;
        await raw.until(new RegExp(`^[^]{${length + 1}}`));
        if (seen > 1_000_000) throw new Error('endless');
      }
    },
  };
}

export function parseEvents(text: string): readonly SentEvent[] {
  const blocks = text.slice(text.indexOf('\r\n\r\n') + 4).split('\n\n');
  // The last one may still be on its way.
  return blocks.slice(0, -1).flatMap((block) => {
    // Lines end as the standard of event streams has it, which is not as expressions have it.
    const lines = block.split(/\r\n|\n|\r/);
    const field = (name: string): string | undefined =>
      lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    const data = field('data');
    const parsed: unknown = data === undefined ? undefined : JSON.parse(data);
    if (data === undefined) return [];
    return [{ event: field('event') ?? 'message', id: field('id'), data: parsed }];
  });
}
