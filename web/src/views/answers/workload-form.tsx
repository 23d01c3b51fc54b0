import { useState } from 'preact/hooks';
import { type Estimate, quantizationPresets } from '../../../../src/estimate/types.js';
import {
  type Answer,
  answerMeaning,
  answersOf,
  makesItFit,
  peakHeading,
  recommendedWords,
  savingsBasis,
  settingOptions,
  verdictOf,
} from '../../../../src/report/estimate-words.js';
import { serveText } from '../../../../src/report/text/serve-room-text.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import { postQuestion } from '../../api/client.js';
import { asRefusal, type Refusal } from '../../api/refusal.js';
import type { EstimateDocument, PlanDocument } from '../../api/types.js';
import { ChoiceField, TextField } from '../../parts/field.js';
import { RefusalNote } from '../../parts/refusal-note.js';
import { ProvenanceTag } from '../../parts/tags.js';
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
import { MemoryParts, Notes, PlanAnswer } from './plan-answer.js';

/** Kept when one goes from one question to the other. */
const kept = createStore<QuestionDraft>(emptyQuestion);

type AnswerView =
  | { readonly kind: 'estimate'; readonly estimate: EstimateDocument }
  | { readonly kind: 'plan'; readonly plan: PlanDocument };

/** Will it fit, and with which settings; or: what does it need. */
export function WorkloadForm({ kind }: { kind: 'plan' | 'estimate' }) {
  const draft = useStore(kept, (now) => now);
  const [problems, setProblems] = useState<Problems<QuestionField>>({});
  const [refusal, setRefusal] = useState<Refusal | undefined>(undefined);
  const [answer, setAnswer] = useState<AnswerView | undefined>(undefined);
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

/** Modes that only an estimate has. */
const servingChoices = [
  ['generate', 'writing text (generate)'],
  ['serve', 'a server of requests'],
] as const;

const asUsual = (names: readonly string[]): readonly (readonly [string, string])[] => [
  ['', 'as usual'],
  ...names.map((name) => [name, name] as const),
];

type Field =
  | 'model'
  | 'mode'
  | 'batch'
  | 'prompt'
  | 'new'
  | 'beams'
  | 'precision'
  | 'quantization'
  | 'engine'
  | 'maxModelLen'
  | 'gpuMemoryUtilization'
  | 'kvPrecision'
  | 'gpu';

interface Bound {
  value: string;
  problem: string | undefined;
  set: (value: string) => void;
}

/** What is asked of a model that writes text. */
function ServingFields(props: { mode: 'generate' | 'serve'; bind: (field: Field) => Bound }) {
  const { mode, bind } = props;
  const number = (field: Field, label: string, placeholder: string) => (
    <TextField {...bind(field)} label={label} placeholder={placeholder} numeric />
  );
  return (
    <div class="fields">
      <TextField {...bind('model')} label="Model" placeholder="/models/llama/config.json" />
      <ChoiceField
        {...bind('mode')}
        label="For"
        choices={[['train', 'training'], ['infer', 'inference'], ...servingChoices]}
      />
      {mode === 'generate' ? (
        <>
          {number('batch', 'Texts at once', '8')}
          {number('prompt', 'Tokens of a prompt', '512')}
          {number('new', 'Tokens that are written', '256')}
          {number('beams', 'Beams', '1')}
        </>
      ) : (
        <>
          <ChoiceField
            {...bind('engine')}
            label="Engine"
            choices={asUsual(['vllm', 'llama.cpp', 'transformers'])}
          />
          {number('maxModelLen', 'Tokens of the longest request', "the model's own")}
          <TextField
            {...bind('gpuMemoryUtilization')}
            label="Share that vLLM takes"
            placeholder="0.9"
          />
          <ChoiceField
            {...bind('kvPrecision')}
            label="Cache in"
            choices={asUsual(['bf16', 'fp16', 'fp8', 'q8_0', 'q4_0'])}
          />
          <ChoiceField
            {...bind('quantization')}
            label="Quantization"
            choices={asUsual(quantizationPresets)}
          />
        </>
      )}
      <ChoiceField
        {...bind('precision')}
        label="Precision"
        choices={asUsual(['bf16', 'fp16', 'fp32'])}
      />
      <TextField {...bind('gpu')} label="Card" placeholder="the one found here" />
    </div>
  );
}

/** The memory of a workload, and whether the card has it, in the words of `plimsoll estimate`. */
function EstimateAnswer(props: { estimate: EstimateDocument; infers: boolean }) {
  const { estimate } = props;
  const { gpu } = estimate;
  // Of a training the plan tells it, with the memory of the whole step.
  const recommended = props.infers ? estimate.recommendedQuantization : undefined;
  const verdict = verdictOf(estimate, gpu);
  return (
    <section class="answer" aria-labelledby="estimate-title">
      <h2 id="estimate-title" class={`fits ${verdict.fits}`}>
        {verdict.sentence} <ProvenanceTag from="estimated" />
      </h2>
      {estimate.serve !== undefined && <pre class="serve-room">{serveText(estimate.serve)}</pre>}
      <h3>{peakHeading(estimate, gpu)}</h3>
      <Answers estimate={estimate} answers={answersOf(estimate, gpu)} card={gpu.capacityBytes} />
      <h3>At the peak</h3>
      <MemoryParts {...estimate} />
      <Phases estimate={estimate} />
      {recommended !== undefined && <p class="recommended">{recommendedWords(recommended)}</p>}
      <Savings estimate={estimate} />
      <Notes notes={estimate.notes} />
    </section>
  );
}

/** The four answers, each against the card; the shade is where the truth lies. */
function Answers(props: { estimate: Estimate; answers: readonly Answer[]; card: number }) {
  const { estimate, answers, card } = props;
  const ends = answers.map(({ bytes, interval }) => Math.max(bytes, interval?.highBytes ?? 0));
  const widest = Math.max(card, ...ends) * 1.01;
  const share = (bytes: number): number => (bytes / widest) * 100;
  return (
    <table class="need">
      <caption class="aside">The peak, against the memory of the card</caption>
      <tbody>
        {answers.map((answer) => (
          <tr key={answer.name}>
            <th scope="row">{answer.name}</th>
            <td class="bar-cell">
              <svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
                <rect
                  class={answer.bytes > card ? 'sunk' : 'measured'}
                  width={share(answer.bytes)}
                  height="10"
                />
                {answer.interval !== undefined && (
                  <rect
                    class="interval"
                    x={share(answer.interval.lowBytes)}
                    width={share(answer.interval.highBytes - answer.interval.lowBytes)}
                    y="2.5"
                    height="5"
                  />
                )}
                <rect class="limit" x={share(card)} width="0.8" height="10" />
              </svg>
            </td>
            <td class="number">{formatBytes(answer.bytes)}</td>
            <td class="meaning">{answerMeaning(estimate, answer)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Phases({ estimate: { phases = [] } }: { estimate: Estimate }) {
  if (phases.length === 0) return null;
  return (
    <>
      <h3>By phase, reserved and allocated</h3>
      <table class="parts">
        <caption class="aside">What each phase takes</caption>
        <tbody>
          {phases.map(({ phase, reservedBytes, allocatedBytes, makesPeak }) => (
            <tr key={phase}>
              <th scope="row">{phase}</th>
              <td class="number">{formatBytes(reservedBytes)}</td>
              <td class="number">{formatBytes(allocatedBytes)}</td>
              <td>{makesPeak ? 'makes the peak' : ''}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

/** What other settings would save, one at a time. */
function Savings({ estimate }: { estimate: EstimateDocument }) {
  const { savings = [], gpu } = estimate;
  if (savings.length === 0) return null;
  return (
    <>
      <h3 id="savings-title">Ways to save memory {savingsBasis(savings)}</h3>
      <div class="scroll" tabIndex={0} role="region" aria-labelledby="savings-title">
        <table class="savings">
          <caption class="aside">What other settings would save</caption>
          <thead>
            <tr>
              <th scope="col">change</th>
              <th scope="col" class="number">
                saves
              </th>
              <th scope="col" class="number">
                least capacity
              </th>
              <th scope="col">option</th>
            </tr>
          </thead>
          <tbody>
            {savings.map((saving) => (
              <tr key={saving.change}>
                <th scope="row">{saving.change}</th>
                <td class="number">{formatBytes(saving.savesBytes)}</td>
                <td class="number">{formatBytes(saving.leastCapacityBytes)}</td>
                <td>
                  <code>{settingOptions(saving.settings)}</code>{' '}
                  {makesItFit(saving, estimate, gpu) && <b class="then-fits">then it fits</b>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
