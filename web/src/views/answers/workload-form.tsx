import { useState } from 'preact/hooks';
import { postQuestion } from '../../api/client.js';
import { asRefusal, type Refusal } from '../../api/refusal.js';
import type { EstimateDocument, PlanDocument } from '../../api/types.js';
import { ChoiceField, TextField } from '../../parts/field.js';
import { RefusalNote } from '../../parts/refusal-note.js';
import { WorkloadFields } from '../../parts/workload-fields.js';
import type { Problems } from '../../state/forms/form-values.js';
import {
  emptyQuestion,
  type QuestionDraft,
  type QuestionField,
  readQuestion,
  servingMode,
} from '../../state/forms/question-draft.js';
import { createStore, useStore } from '../../state/live/store.js';
import { EstimateAnswer } from './estimate-answer.js';
import { PlanAnswer } from './plan-answer.js';
import { ServingFields, servingChoices } from './serving-fields.js';

/** Kept when one goes from one question to the other. */
const kept = createStore<QuestionDraft>(emptyQuestion);

type Answer =
  | { readonly kind: 'estimate'; readonly estimate: EstimateDocument }
  | { readonly kind: 'plan'; readonly plan: PlanDocument };

/** Will it fit, and with which settings; or: what does it need. */
export function WorkloadForm({ kind }: { kind: 'plan' | 'estimate' }) {
  const draft = useStore(kept, (now) => now);
  const [problems, setProblems] = useState<Problems<QuestionField>>({});
  const [refusal, setRefusal] = useState<Refusal | undefined>(undefined);
  const [answer, setAnswer] = useState<Answer | undefined>(undefined);
  const [busy, setBusy] = useState(false);
  const set = (field: QuestionField, value: string): void => {
    kept.set({ ...kept.get(), [field]: value });
    setProblems((before) => ({ ...before, [field]: undefined }));
  };
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    const read = readQuestion(draft, kind);
    setRefusal(undefined);
    setProblems('problems' in read ? read.problems : {});
    if ('problems' in read) return;
    setBusy(true);
    try {
      setAnswer(
        kind === 'plan'
          ? { kind, plan: await postQuestion<PlanDocument>('plan', read.question) }
          : { kind, estimate: await postQuestion<EstimateDocument>('estimate', read.question) },
      );
    } catch (error) {
      setAnswer(undefined);
      setRefusal(asRefusal(error));
    } finally {
      setBusy(false);
    }
  };
  const plan = kind === 'plan';
  const serving = plan ? undefined : servingMode(draft);
  const bind = (field: QuestionField) => ({
    value: draft[field],
    problem: problems[field],
    set: (value: string) => set(field, value),
  });
  return (
    <form class="form" onSubmit={(event) => void send(event)} noValidate>
      <h1>{plan ? 'Plan' : 'Estimate'}</h1>
      <p class="soft">
        {plan
          ? 'Which settings make it fit, with the least given up? Empty fields are chosen for you.'
          : 'How much memory does it need, and for what?'}
      </p>
      {plan && (
        <div class="fields first">
          <TextField
            {...bind('memory')}
            label="Memory"
            placeholder="24GiB"
            hint="What PyTorch may take; or name a card below"
          />
          <TextField {...bind('gpus')} label="Devices" placeholder="1" numeric />
          <ChoiceField
            {...bind('maxBatch')}
            label="Answer"
            choices={[
              ['', 'the settings that fit'],
              ['yes', 'the largest batch'],
            ]}
          />
        </div>
      )}
      {serving === undefined ? (
        <WorkloadFields
          draft={draft}
          problems={problems}
          set={set}
          open={plan ? 'open' : 'as usual'}
          otherModes={plan ? [] : servingChoices}
        />
      ) : (
        <ServingFields mode={serving} bind={bind} />
      )}
      {refusal !== undefined && <RefusalNote refusal={refusal} />}
      <div class="actions">
        <button type="submit" class="primary" disabled={busy}>
          {plan ? 'Plan' : 'Estimate'}
        </button>
        {busy && (
          <span class="soft" role="status">
            Working on it; a trace takes some seconds …
          </span>
        )}
      </div>
      <div aria-live="polite">
        {answer?.kind === 'plan' && plan && <PlanAnswer plan={answer.plan} />}
        {answer?.kind === 'estimate' && !plan && (
          <EstimateAnswer estimate={answer.estimate} infers={draft.mode === 'infer'} />
        )}
      </div>
    </form>
  );
}
