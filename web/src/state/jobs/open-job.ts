import { useEffect, useState } from 'preact/hooks';
import { isKnown, type Known } from '../../../../src/units/known.js';
import { fetchJob, fetchJobHistory } from '../../api/client.js';
import { asRefusal, type Refusal } from '../../api/refusal.js';
import type { DeviceView, JobHistory, JobView, Provenance } from '../../api/types.js';
import { board, connection } from '../live/live.js';
import { useStore } from '../live/store.js';

/** A job that runs is looked at so often; one that changed, at once. */
const everyMs = 2000;

interface OpenJob {
  readonly job: JobView | undefined;
  readonly history: JobHistory;
  readonly refusal: Refusal | undefined;
}

const noHistory: JobHistory = { epochMs: [], usedBytes: [] };
const nothing: OpenJob = { job: undefined, history: noHistory, refusal: undefined };

/** All about one job, kept fresh while it is open. */
export function useJob(id: string): OpenJob {
  const [open, setOpen] = useState<OpenJob & { readonly id: string }>({ id, ...nothing });
  const changed = useStore(board, ({ jobs }) => jobs.get(id));
  const phase = useStore(connection, (now) => now.phase);
  const running = changed?.state === 'running';
  useEffect(() => {
    let left = false;
    const look = async (): Promise<void> => {
      try {
        const [job, history] = await Promise.all([fetchJob(id), fetchJobHistory(id)]);
        if (!left) setOpen({ id, job, history, refusal: undefined });
      } catch (error) {
        if (!left) setOpen((before) => ({ ...before, id, refusal: asRefusal(error) }));
      }
    };
    void look();
    const timer = running && phase === 'live' ? setInterval(() => void look(), everyMs) : undefined;
    return () => {
      left = true;
      clearInterval(timer);
    };
  }, [id, changed, running, phase]);
  return open.id === id ? open : nothing;
}

/** Returns the bytes of a job on all devices together; `unknown` if one is not known. */
export function usedByJob(devices: readonly DeviceView[], jobId: string): Known<number> {
  let sum: number | undefined;
  for (const { reservations } of devices) {
    for (const reservation of reservations) {
      if (reservation.jobId === jobId && isKnown(reservation.usedBytes)) {
        sum = (sum ?? 0) + reservation.usedBytes;
      }
    }
  }
  return sum ?? 'unknown';
}

/** Returns the source of a job's figures: its device's, else its attempts'. */
export function provenanceOfJob(
  devices: readonly DeviceView[],
  { attempts, reservation }: Pick<JobView, 'attempts' | 'reservation'>,
): Known<Provenance> {
  const place = devices.find(({ id }) => reservation?.devices.includes(id));
  return place?.provenance ?? attempts[0]?.source ?? 'unknown';
}
