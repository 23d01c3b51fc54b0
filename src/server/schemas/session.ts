import { z } from '@hono/zod-openapi';
import { roles } from '../access/identity.js';
import { bytes, version } from './common.js';

export const sessionRequestSchema = z
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

export const loginLinkSchema = z
  .object({
    ...version,
    path: z.string().openapi({ description: 'What follows the address of this server.' }),
    url: z.string().openapi({ description: 'That address, as the server itself knows it.' }),
  })
  .openapi('LoginLink');

export const proofSchema = z
  .object({
    ...version,
    proof: z.string().openapi({
      description:
        'HMAC-SHA256 of "plimsoll server NONCE", base64url. Its key is the token of the server; with id, the SHA-256 of the token of that user, in base64url.',
    }),
  })
  .openapi('Proof');

export const whoSchema = z
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
