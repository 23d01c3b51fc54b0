import { useEffect, useState } from 'preact/hooks';
import { fetchJobRequest, submitJob } from '../api/client.js';
import { asRefusal, type Refusal } from '../api/refusal.js';
import type { JobRequest } from '../api/types.js';
import { AreaField, TextField } from '../parts/field.js';
import { RefusalNote } from '../parts/refusal-note.js';
import { WorkloadFields } from '../parts/workload-fields.js';
import type { Problems } from '../state/forms/form-values.js';
import {
  draftLike,
  emptySubmit,
  fieldOf,
  readSubmit,
  type SubmitDraft,
  type SubmitField,
} from '../state/forms/submit-draft.js';

/** A new job; `like` fills the form with an earlier one. */
export function SubmitForm({ like }: { like: string | undefined }) {
  const [draft, setDraft] = useState<SubmitDraft>(emptySubmit);
  const [problems, setProblems] = useState<Problems<SubmitField>>({});
  const [refusal, setRefusal] = useState<Refusal | undefined>(undefined);
  const [busy, setBusy] = useState(false);
  const [earlier, setEarlier] = useState<JobRequest | undefined>(undefined);
  useEffect(() => {
    if (like === undefined) return;
    const fill = (request: JobRequest): void => {
      setEarlier(request);
      setDraft(draftLike(request));
    };
    fetchJobRequest(like).then(fill, (error: unknown) => setRefusal(asRefusal(error)));
  }, [like]);

  const set = (field: SubmitField, value: string): void => {
    setDraft((before) => ({ ...before, [field]: value }));
    setProblems((before) => ({ ...before, [field]: undefined }));
  };
  const bind = (field: SubmitField) => ({
    value: draft[field],
    problem: problems[field],
    set: (value: string) => set(field, value),
  });
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    const read = readSubmit(draft, earlier);
    setRefusal(undefined);
    setProblems('problems' in read ? read.problems : {});
    if ('problems' in read) return focusWrong();
    setBusy(true);
    try {
      const job = await submitJob(read.request);
      location.hash = `#/job/${job.id}`;
    } catch (error) {
      const said = asRefusal(error);
      const field = fieldOf(said);
      if (field === undefined) setRefusal(said);
      else {
        setProblems({ [field]: `${said.fact} ${said.next}` });
        focusWrong();
      }
    } finally {
      setBusy(false);
    }
  };

  return (
    <form class="form" onSubmit={(event) => void send(event)} noValidate>
      <h1>New job</h1>
      <AreaField
        {...bind('command')}
        label="Command"
        rows={2}
        wide
        placeholder="python train.py --batch-size {batch_size} --accumulate {accumulation}"
        hint="{batch_size} and {accumulation} are filled in, and lowered where memory runs out. For a shell: bash -c '…'"
      />
      <div class="fields">
        <TextField {...bind('name')} label="Name" placeholder="from the command" />
        <TextField
          {...bind('memory')}
          label="Memory"
          placeholder="6GiB"
          hint="What it takes of each device. Left out: estimated, or as measured before"
        />
        <TextField
          {...bind('batch')}
          label="Batch"
          placeholder="32"
          numeric
          hint="For {batch_size}, and for the estimate"
        />
        <TextField
          {...bind('gpus')}
          label="Devices"
          placeholder="1"
          numeric
          hint="0: the host's memory"
        />
        <TextField
          {...bind('priority')}
          label="Priority"
          placeholder="0"
          numeric
          hint="The higher, the sooner"
        />
        <TextField
          {...bind('timeout')}
          label="May wait for"
          placeholder="for ever"
          hint="30m, 2h; then it expires"
        />
        <TextField
          {...bind('cwd')}
          label="Folder"
          placeholder="the server's"
          hint="An absolute path"
        />
      </div>
      <details>
        <summary>Environment</summary>
        <AreaField
          {...bind('env')}
          label="Variables"
          rows={3}
          wide
          placeholder="WANDB_MODE=offline"
          hint="One NAME=value a line"
        />
      </details>
      <details open={problems.model !== undefined || undefined}>
        <summary>Estimate the memory from a model</summary>
        <WorkloadFields
          draft={draft}
          problems={problems}
          set={set}
          open="as usual"
          hasBatch={false}
        />
      </details>
      {refusal !== undefined && <RefusalNote refusal={refusal} />}
      <div class="actions">
        <button type="submit" class="primary" disabled={busy}>
          Submit
        </button>
        <a class="button" href="#/">
          Back
        </a>
      </div>
    </form>
  );
}

/** After the fields were drawn with their problems. */
function focusWrong(): void {
  requestAnimationFrame(() => {
    document.querySelector<HTMLElement>('[aria-invalid="true"]')?.focus();
  });
}
