import { z } from '@hono/zod-openapi';
import type { Daemon, WorkersStatus } from '../../jobs/daemon/types.js';
import { bytes, known, version } from '../schemas/common.js';
import { statusExample } from './examples.js';
import {
  jsonAnswer,
  jsonContent,
  noBody,
  nothing,
  type Operation,
  operation,
} from './operation.js';

const tag = 'server';
const mib = 1024 * 1024;

export function statusOperations(options: {
  readonly daemon: Daemon;
  readonly version: string;
  readonly pulse: ReadingPulse;
  uptimeSeconds(): number;
}): readonly Operation[] {
  const { daemon, version: ownVersion } = options;
  const healthExample = { status: 'ok', why: '', version: '0.1.0', uptimeSeconds: 12.5 };
  return [
    operation({
      method: 'get',
      path: '/workers/status',
      id: 'getStatus',
      tag,
      summary: 'What the server holds, in one look',
      params: nothing,
      query: z.strictObject({
        style: z.enum(['legacy']).optional().openapi({
          description: 'legacy: with the names of an earlier tool, in MiB, and nothing else.',
        }),
      }),
      body: noBody,
      answers: {
        200: jsonContent(
          z.union([workersStatusSchema, legacyStatusSchema]),
          'The status.',
          statusExample,
        ),
      },
      handle: ({ query }) => {
        const status = daemon.status();
        return jsonAnswer(query.style === 'legacy' ? legacyStatus(status) : status);
      },
    }),
    operation({
      method: 'get',
      path: '/healthz',
      id: 'getHealth',
      tag,
      summary: 'Whether the server works',
      params: nothing,
      query: nothing,
      open: true,
      body: noBody,
      answers: {
        200: jsonContent(healthSchema, 'It works.', healthExample),
        503: jsonContent(healthSchema, 'It does not.', {
          ...healthExample,
          status: 'failing',
          why: 'The store of jobs cannot be written.',
        }),
      },
      handle() {
        const { ok, why } = healthOf(daemon, options.pulse);
        const uptimeSeconds = Math.round(options.uptimeSeconds() * 1000) / 1000;
        const body = { status: ok ? 'ok' : 'failing', why, version: ownVersion, uptimeSeconds };
        return jsonAnswer(body, ok ? 200 : 503);
      },
    }),
  ];
}

/** A daemon that does not tell is asked something: an answer is a sign of life. */
function healthOf(
  daemon: Daemon,
  pulse: ReadingPulse,
): { readonly ok: boolean; readonly why: string } {
  try {
    const still = pulse.stillSeconds();
    if (still !== undefined) {
      return { ok: false, why: `No device was read for ${Math.round(still)} seconds.` };
    }
    return daemon.health();
  } catch {
    return { ok: false, why: 'The daemon does not answer; its log says why.' };
  }
}

/** As an earlier tool answered; its "mb" were MiB. */
function legacyStatus(status: WorkersStatus): Omit<z.input<typeof legacyStatusSchema>, 'schema'> {
  return {
    active_jobs: status.activeJobs,
    pending_jobs: status.waitingJobs,
    total_allocated_mb: Math.round(status.reservedBytes / mib),
    pending_requirements_mb: Math.round(status.waitingBytes / mib),
  };
}

/** Shorter silence is no sign of anything. */
const leastStillSeconds = 60;
/** Readings may be set to come seldom; so many times the usual pause is too long for any setting. */
const stillPauses = 5;

/** Whether readings of devices still come: a daemon whose loop stands still sends none. */
export class ReadingPulse {
  readonly #seconds: () => number;
  #last: number | undefined;
  #pause = 0;

  constructor(seconds: () => number) {
    this.#seconds = seconds;
  }

  heard(): void {
    const now = this.#seconds();
    this.#pause = now - (this.#last ?? now);
    this.#last = now;
  }

  /** For how long none came, where that is too long; a daemon that never sent one says nothing. */
  stillSeconds(): number | undefined {
    if (this.#last === undefined) return undefined;
    const still = this.#seconds() - this.#last;
    return still > Math.max(leastStillSeconds, stillPauses * this.#pause) ? still : undefined;
  }
}

/** As `WorkersStatus` has it. */
export const workersStatusSchema = z
  .object({
    ...version,
    activeJobs: z.int(),
    waitingJobs: z.int(),
    reservedBytes: bytes,
    waitingBytes: bytes,
    devices: z.array(
      z.object({
        id: z.string(),
        totalBytes: known(bytes),
        usedBytes: known(bytes),
        freeBytes: known(bytes),
        usedPercent: known(z.number()),
        status: z.string(),
      }),
    ),
  })
  .openapi('WorkersStatus');

/** The names of an earlier tool; its MB are MiB. */
const legacyStatusSchema = z
  .object({
    ...version,
    active_jobs: z.int(),
    pending_jobs: z.int(),
    total_allocated_mb: z.number().openapi({ description: 'MiB, as the earlier tool counted.' }),
    pending_requirements_mb: z.number(),
  })
  .openapi('LegacyWorkersStatus');

const healthSchema = z
  .object({
    ...version,
    status: z.enum(['ok', 'failing']),
    why: z.string().openapi({ description: 'Empty where all is well.' }),
    version: z.string(),
    uptimeSeconds: z.number(),
  })
  .openapi('Health');
