import { z } from '@hono/zod-openapi';
import { documentVersion } from '../../files/document-version.js';

/** A value, or the word `unknown` where it could not be read. */
export function known<Schema extends z.ZodType>(
  schema: Schema,
): z.ZodUnion<[Schema, z.ZodLiteral<'unknown'>]> {
  return z.union([schema, z.literal('unknown')]);
}

export const bytes = z.int().min(0).openapi({ description: 'Bytes.' });
export const seconds = z.number();
/** Of a moment, for people and programs: 2026-01-01T00:00:00.000Z. */
export const moment = z.iso.datetime();
export const epochMs = z.number().openapi({ description: 'Milliseconds since 1970.' });
export const provenance = z.enum(['measured', 'simulated', 'estimated']);

/** Of every whole document. */
export const version = {
  schema: z.literal(documentVersion).openapi({
    description: 'The version of the document; it rises when a field changes its meaning.',
  }),
};

export const errorSchema = z
  .object({
    ...version,
    error: z.object({
      code: z.string().openapi({ description: 'Stable; for programs.' }),
      fact: z.string().openapi({ description: 'What is the matter; for people.' }),
      next: z.string().openapi({ description: 'What to do about it; for people.' }),
      field: z.string().optional().openapi({
        description: 'The field of the request that it is about, such as workload.batch.',
      }),
    }),
  })
  .openapi('Error', {
    example: {
      schema: documentVersion,
      error: {
        code: 'unknown-job',
        fact: 'There is no job "7".',
        next: 'Run "plimsoll jobs" to see them.',
      },
    },
  });
