import { z } from '@hono/zod-openapi';
import { type Gate, loginLink, openSession, serverProof } from '../access/identify.js';
import { serverLimits } from '../http/limits.js';
import { loginLinkSchema, proofSchema, sessionRequestSchema } from '../schemas/status.js';
import { jsonAnswer, jsonContent, noBody, nothing } from './answers.js';
import { type Answer, type Operation, operation } from './operation.js';

const tag = 'server';

/** Browsers cannot send a header with an event stream: the page trades the token for a cookie. */
export function sessionOperations(
  gate: Gate | undefined,
  /** Answers that go on are looked at again. */
  onEnd: () => void,
): readonly Operation[] {
  const answers = {
    204: { description: 'Done; the cookie is in Set-Cookie.' },
  };
  return [
    operation({
      method: 'post',
      path: '/session',
      id: 'openSession',
      tag,
      summary: 'Log a browser in',
      params: nothing,
      query: nothing,
      body: { schema: sessionRequestSchema, example: { token: 'TOKEN' } },
      open: true,
      answers,
      errors: [401, 429],
      maxBodyBytes: serverLimits.strangersBodyBytes,
      handle: async ({ body }, { incoming }) =>
        withCookie(
          await openSession(gate, body, {
            address: incoming.socket.remoteAddress ?? '',
            // TLS ends before us; the page says how it was loaded.
            overTls: incoming.headers.origin?.startsWith('https:') ?? false,
          }),
        ),
    }),
    operation({
      method: 'post',
      path: '/session/link',
      id: 'makeLoginLink',
      tag,
      summary: 'A link that logs one browser in, once',
      params: nothing,
      query: nothing,
      body: { schema: nothing, example: {} },
      answers: {
        201: jsonContent(loginLinkSchema, 'The link.', { path: '/#login=CODE' }),
      },
      handle: () => jsonAnswer({ path: loginLink(gate) }, 201),
    }),
    operation({
      method: 'get',
      path: '/proof',
      id: 'getProof',
      tag,
      summary: 'Whether this server knows the token of the client',
      description:
        'Clients ask before they send the token or a job: another program may have taken the port.',
      params: nothing,
      query: z.strictObject({
        nonce: z
          .string()
          .regex(/^[\w-]{16,100}$/)
          .openapi({ description: 'Random letters, new each time.', example: 'x8Jk2-bV9qLw3nRt' }),
      }),
      open: true,
      body: noBody,
      answers: { 200: jsonContent(proofSchema, 'The proof.', { proof: 'BASE64URL' }) },
      handle: ({ query }) => jsonAnswer({ proof: serverProof(gate, query.nonce) }),
    }),
    operation({
      method: 'delete',
      path: '/session',
      id: 'endSession',
      tag,
      summary: 'Log a browser out',
      description: 'Its event streams end, too.',
      params: nothing,
      query: nothing,
      open: true,
      body: noBody,
      answers,
      handle(_, { incoming }) {
        if (gate === undefined) return { status: 204, body: null, headers: {} };
        const isOpen = gate.sessions.find(incoming.headers.cookie) !== undefined;
        const cookie = gate.sessions.end(incoming.headers.cookie);
        if (isOpen) onEnd();
        return withCookie(cookie);
      },
    }),
  ];
}

function withCookie(cookie: string): Answer {
  return {
    status: 204,
    body: null,
    headers: { 'set-cookie': cookie, 'cache-control': 'no-store' },
  };
}
