import { z } from '@hono/zod-openapi';
import { Failure } from '../../failure.js';
import type { Daemon } from '../../jobs/daemon/types.js';
import { requireOwn } from '../access/permissions.js';
import { serverLimits } from '../http/limits.js';
import { noBody } from './answers.js';
import { jobIdParams } from './job-routes.js';
import { type Operation, operation } from './operation.js';

export function logOperation(daemon: Daemon): Operation {
  return operation({
    method: 'get',
    path: '/jobs/{id}/log',
    id: 'getJobLog',
    tag: 'jobs',
    summary: 'What a job printed',
    needs: 'work',
    description: `At most ${serverLimits.logBytes} bytes an answer. To read on, ask from X-Log-Next; where that is X-Log-Size, there is no more yet. An offset is a place in all that the job ever wrote. Of a log that is longer than its limit a part is no longer there: a line stands for it, and X-Log-Next lies behind it.`,
    params: jobIdParams,
    query: z.strictObject({
      from: z.int().min(0).max(Number.MAX_SAFE_INTEGER).optional().openapi({
        description: 'The offset of the first byte wanted; 0 where it is left out.',
        example: 0,
      }),
      tail: z.int().min(0).max(serverLimits.logBytes).optional().openapi({
        description: 'Instead of from: the last so many bytes.',
      }),
    }),
    body: noBody,
    answers: {
      200: {
        description: 'The bytes, as the job wrote them, and a line where some are missing.',
        headers: z.object({
          'x-log-size': z.int().openapi({ description: 'Bytes of the whole log.', example: 1024 }),
          'x-log-next': z
            .int()
            .openapi({ description: 'The offset to read on from.', example: 17 }),
          'x-log-from': z
            .int()
            .openapi({ description: 'The offset of the first byte here.', example: 0 }),
        }),
        content: { 'text/plain': { schema: z.string(), example: 'step 1 loss 2.31\n' } },
      },
    },
    errors: [404],
    async handle({ params, query: { from, tail } }, { who }) {
      requireOwn(who.identity, daemon.job(params.id), 'read its log');
      if (from !== undefined && tail !== undefined) throw eitherOr();
      const start = tail === undefined ? (from ?? 0) : await tailStart(daemon, params.id, tail);
      const most = tail ?? serverLimits.logBytes;
      const { bytes, size, next } = await daemon.readLog(params.id, start, most);
      return {
        status: 200,
        body: new Uint8Array(bytes),
        headers: {
          'content-type': 'text/plain; charset=utf-8',
          'cache-control': 'no-store',
          'x-log-size': String(size),
          'x-log-next': String(next),
          'x-log-from': String(start),
        },
      };
    },
  });
}

async function tailStart(daemon: Daemon, id: string, tail: number): Promise<number> {
  const { size } = await daemon.readLog(id, 0, 0);
  return Math.max(0, size - tail);
}

function eitherOr(): Failure {
  return new Failure({
    kind: 'input',
    code: 'bad-option',
    fact: 'Both from and tail are given.',
    next: 'Leave one of them out.',
  });
}
