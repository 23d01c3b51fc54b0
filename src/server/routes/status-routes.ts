import type { Daemon, WorkersStatus } from '../../jobs/daemon/types.js';
import type { ReadingPulse } from '../reading-pulse.js';
import { healthSchema, workersStatusSchema } from '../schemas/status.js';
import { jsonAnswer, jsonContent, noBody, nothing } from './answers.js';
import { statusExample } from './examples.js';
import { type Operation, operation } from './operation.js';

const tag = 'server';
const mib = 1024 * 1024;

export function statusOperations(options: {
  readonly daemon: Daemon;
  readonly version: string;
  readonly pulse: ReadingPulse;
  uptimeSeconds(): number;
}): readonly Operation[] {
  const { daemon, version } = options;
  const healthExample = { status: 'ok', why: '', version: '0.1.0', uptimeSeconds: 12.5 };
  return [
    operation({
      method: 'get',
      path: '/workers/status',
      id: 'getStatus',
      tag,
      summary: 'What the server holds, in one look',
      params: nothing,
      query: nothing,
      body: noBody,
      answers: { 200: jsonContent(workersStatusSchema, 'The status.', statusExample) },
      handle: () => jsonAnswer(withOlderNames(daemon.status())),
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
        const body = { status: ok ? 'ok' : 'failing', why, version, uptimeSeconds };
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

/** The names that `GET /workers/status` had in an older tool; its "mb" were MiB. */
function withOlderNames(status: WorkersStatus): unknown {
  return {
    ...status,
    active_jobs: status.activeJobs,
    pending_jobs: status.waitingJobs,
    total_allocated_mb: Math.round(status.reservedBytes / mib),
    pending_requirements_mb: Math.round(status.waitingBytes / mib),
  };
}
