import { request } from 'node:http';
import { Readable } from 'node:stream';

/** What a client sends; `fetch` takes it, too. */
export type Fetcher = (
  url: string,
  sent: {
    readonly method: string;
    readonly headers: Record<string, string>;
    readonly redirect: 'manual';
    readonly signal: AbortSignal;
    readonly body?: string;
  },
) => Promise<Response>;

/** Answers without a body. */
const bodiless: ReadonlySet<number> = new Set([204, 205, 304]);

/** Asks a server at a local socket, as `fetch` asks one at an address. */
export function socketFetch(socketPath: string): Fetcher {
  return (url, { method, headers, signal, body }) =>
    new Promise((resolve, reject) => {
      // What lies under it stands where `fetch` has it.
      const fail = (cause: unknown): void => reject(new TypeError('fetch failed', { cause }));
      const { pathname, search, host } = new URL(url);
      const sent = request({
        socketPath,
        path: `${pathname}${search}`,
        method,
        headers: { host, ...headers },
        signal,
        agent: false,
      });
      sent.once('error', fail);
      sent.once('response', (answer) => {
        const status = answer.statusCode ?? 0;
        const heads = Object.entries(answer.headersDistinct).flatMap(([name, values = []]) =>
          values.map((value): [string, string] => [name, value]),
        );
        try {
          const content = bodiless.has(status) ? null : Readable.toWeb(answer);
          resolve(new Response(content, { status, headers: heads }));
        } catch (error) {
          answer.destroy();
          fail(error);
        }
      });
      sent.end(body);
    });
}
