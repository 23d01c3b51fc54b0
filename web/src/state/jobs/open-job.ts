import { useEffect, useState } from 'preact/hooks';
import { fetchJob, fetchJobHistory } from '../../api/client.js';
import { asRefusal, type Refusal } from '../../api/refusal.js';
import type { JobHistory, JobView } from '../../api/types.js';
import { board, connection } from '../live/live.js';
import { useStore } from '../live/store.js';

/** A job that runs is looked at so often; one that changed, at once. */
const everyMs = 2000;

export interface OpenJob {
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
