import { z } from '@hono/zod-openapi';
import { type Gate, loginLink, openSession, serverProof } from '../access/identify.js';
import { roles } from '../access/permissions.js';
import { serverLimits } from '../http/limits.js';
import { addressOf } from '../local/peer-credentials.js';
import { bytes, version } from '../schemas/common.js';
import {
  type Answer,
  jsonAnswer,
  jsonContent,
  noBody,
  nothing,
  type Operation,
  operation,
} from './operation.js';

const tag = 'server';

/** Browsers cannot send a header with an event stream: the page trades the token for a cookie. */
export function sessionOperations(
  gate: Gate | undefined,
  /** Answers that go on are looked at again. */
  onEnd: () => void,
  /** Returns the address of the page. */
  url: () => string,
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
      audit: 'login',
      params: nothing,
      query: nothing,
      body: { schema: sessionRequestSchema, example: { token: 'TOKEN' } },
      open: true,
      answers,
      errors: [401, 429],
      maxBodyBytes: serverLimits.strangersBodyBytes,
      async handle({ body }, { incoming, about }) {
        const { cookie, name, via } = await openSession(gate, body, {
          address: addressOf(incoming.socket),
          // TLS ends before us; the page says how it was loaded.
          overTls: incoming.headers.origin?.startsWith('https:') ?? false,
        });
        about({ who: name, via });
        return withCookie(cookie);
      },
    }),
    operation({
      method: 'get',
      path: '/session',
      id: 'getSession',
      tag,
      summary: 'Who the client is, and what it may do',
      params: nothing,
      query: nothing,
      body: noBody,
      answers: {
        200: jsonContent(whoSchema, 'Name, role and quota.', {
          name: 'ada',
          role: 'user',
          maxMemoryBytes: 42_949_672_960,
          maxJobs: null,
        }),
      },
      handle(_, { who: { identity } }) {
        const { name, role, quota } = identity;
        const { maxMemoryBytes = null, maxJobs = null } = quota;
        return jsonAnswer({ name, role, maxMemoryBytes, maxJobs });
      },
    }),
    operation({
      method: 'post',
      path: '/session/link',
      id: 'makeLoginLink',
      tag,
      summary: 'A link that logs one browser in, once',
      description: 'It logs the browser in as the user who asks for it.',
      audit: 'make-login-link',
      params: nothing,
      query: nothing,
      body: { schema: nothing, example: {} },
      answers: {
        201: jsonContent(loginLinkSchema, 'The link.', {
          path: '/#login=CODE',
          url: 'http://127.0.0.1:8000',
        }),
      },
      handle: (_, { who }) => jsonAnswer({ path: loginLink(gate, who.subject), url: url() }, 201),
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
        id: z
          .string()
          .regex(/^[\da-f]{12}$/)
          .optional()
          .openapi({ description: 'Of the token of a user: the part between its underscores.' }),
      }),
      open: true,
      body: noBody,
      answers: { 200: jsonContent(proofSchema, 'The proof.', { proof: 'BASE64URL' }) },
      errors: [401],
      handle: ({ query }) => jsonAnswer({ proof: serverProof(gate, query.nonce, query.id) }),
    }),
    operation({
      method: 'delete',
      path: '/session',
      id: 'endSession',
      tag,
      summary: 'Log a browser out',
      audit: 'logout',
      description: 'Its event streams end, too.',
      params: nothing,
      query: nothing,
      open: true,
      body: noBody,
      answers,
      handle(_, { incoming, about }) {
        if (gate === undefined) return { status: 204, body: null, headers: {} };
        const session = gate.sessions.find(incoming.headers.cookie);
        const isOpen = session !== undefined;
        about({
          who: gate.people.bySubject(session?.subject ?? 'none')?.identity.name ?? 'unknown',
          ...(isOpen && { via: 'session' }),
        });
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

const sessionRequestSchema = z
  .strictObject({
    token: z.string().min(1).max(1000).optional(),
    code: z
      .string()
      .min(1)
      .max(1000)
      .optional()
      .openapi({ description: 'Of a link of POST /session/link, instead of the token.' }),
  })
  .refine(({ token, code }) => (token === undefined) !== (code === undefined), {
    message: 'Send either token or code.',
  })
  .openapi('SessionRequest');

const loginLinkSchema = z
  .object({
    ...version,
    path: z.string().openapi({ description: 'What follows the address of this server.' }),
    url: z.string().openapi({ description: 'That address, as the server itself knows it.' }),
  })
  .openapi('LoginLink');

const proofSchema = z
  .object({
    ...version,
    proof: z.string().openapi({
      description:
        'HMAC-SHA256 of "plimsoll server NONCE", base64url. Its key is the token of the server; with id, the SHA-256 of the token of that user, in base64url.',
    }),
  })
  .openapi('Proof');

const whoSchema = z
  .object({
    ...version,
    name: z.string().openapi({ description: '"owner" has the token of the server itself.' }),
    role: z.enum(roles),
    maxMemoryBytes: bytes.nullable().openapi({
      description: 'What may be reserved at the same time; null is no limit.',
    }),
    maxJobs: z.int().nullable().openapi({
      description: 'Jobs that may run at the same time; null is no limit.',
    }),
  })
  .openapi('Who', { description: 'Who the client is.' });
