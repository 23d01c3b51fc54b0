import { useRef, useState } from 'preact/hooks';
import { cancelJob } from '../api/client.js';
import { asRefusal, type Refusal } from '../api/refusal.js';
import type { JobSummary } from '../api/types.js';
import { createStore, useStore } from '../state/live/store.js';
import { RefusalNote } from './notes.js';

type Asked = Pick<JobSummary, 'id' | 'name' | 'state'>;
const asked = createStore<Asked | undefined>(undefined);
let show: (() => void) | undefined;

/** Asks before a job is ended: hours of work may hang on it. */
export function askToCancel(job: Asked): void {
  asked.set(job);
  show?.();
}

export function CancelDialog() {
  const job = useStore(asked, (now) => now);
  const dialog = useRef<HTMLDialogElement>(null);
  const [refusal, setRefusal] = useState<Refusal | undefined>(undefined);
  const [busy, setBusy] = useState(false);
  // At once, not when the job is drawn: a key pressed as the last question closes asks again.
  show = () => {
    setRefusal(undefined);
    if (dialog.current?.open === false) dialog.current.showModal();
  };
  const close = (): void => dialog.current?.close();
  const cancel = async (): Promise<void> => {
    if (job === undefined) return;
    setBusy(true);
    try {
      await cancelJob(job.id);
      close();
    } catch (error) {
      setRefusal(asRefusal(error));
    } finally {
      setBusy(false);
    }
  };
  return (
    <dialog ref={dialog} aria-labelledby="cancel-title">
      <h2 id="cancel-title">Cancel job {job?.id}?</h2>
      <p>
        {job?.state === 'running'
          ? `${job.name} is asked to stop, and its memory is given to others. What it has not saved is lost.`
          : `${job?.name ?? ''} leaves the queue.`}
      </p>
      {refusal !== undefined && <RefusalNote refusal={refusal} />}
      <div class="actions">
        <button type="button" onClick={close}>
          Keep it
        </button>
        <button type="button" class="danger" disabled={busy} onClick={() => void cancel()}>
          Cancel the job
        </button>
      </div>
    </dialog>
  );
}
