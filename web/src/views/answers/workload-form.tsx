import { useEffect, useRef, useState } from 'preact/hooks';
import {
  type Estimate,
  quantizationPresets,
  type SpillPoint,
} from '../../../../src/estimate/types.js';
import { formChoices, formLabels } from '../../../../src/plan/answers/wording.js';
import {
  type Answer,
  answerMeaning,
  answersOf,
  makesItFit,
  peakHeading,
  recommendedWords,
  savingsBasis,
  serveText,
  settingOptions,
  spillTitle,
  times,
  verdictOf,
} from '../../../../src/report/estimate-words.js';
import { formatBytes } from '../../../../src/units/bytes.js';
import { postQuestion } from '../../api/client.js';
import { asRefusal, type Refusal } from '../../api/refusal.js';
import type { Assumptions, EstimateDocument, PlanDocument } from '../../api/types.js';
import { useNow } from '../../parts/clock.js';
import { ChoiceField, focusWrong, TextField } from '../../parts/field.js';
import { RefusalNote } from '../../parts/refusal-note.js';
import { ProvenanceTag } from '../../parts/tags.js';
import { coarse } from '../../parts/words.js';
import { CardField, ModelField, openChoices, WorkloadFields } from '../../parts/workload-fields.js';
import { useAssumptions, useNames } from '../../state/forms/assumed.js';
import { inFormWords, type Problems, problemWords } from '../../state/forms/form-values.js';
import {
  emptyQuestion,
  openQuestion,
  type Question,
  type QuestionDraft,
  type QuestionField,
  questionFieldOf,
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
  const [wait, setWait] = useState<Wait | undefined>(undefined);
  const asking = useRef(new AbortController());
  // A question of a page that was left is not answered.
  useEffect(() => () => asking.current.abort(), []);
  const assumed = useAssumptions(kind, openQuestion(draft, kind));
  const gpuHere = useNames()?.gpu;
  const set = (field: QuestionField, value: string): void => {
    kept.set({ ...kept.get(), [field]: value });
    setProblems((before) => ({ ...before, [field]: undefined }));
  };
  const send = async (event: Event): Promise<void> => {
    event.preventDefault();
    const read = readQuestion(draft, kind);
    setRefusal(undefined);
    setProblems('problems' in read ? read.problems : {});
    if ('problems' in read) return focusWrong();
    const stop = new AbortController();
    asking.current = stop;
    setWait({ sinceMs: Date.now(), isFirstShown: false });
    const first = firstAnswer(kind, read.question, stop.signal, (found) => {
      setAnswer(found);
      setWait((before) => before && { ...before, isFirstShown: true });
    });
    try {
      setAnswer(await answerTo(kind, read.question, stop.signal));
    } catch (error) {
      if (stop.signal.aborted) return;
      const said = asRefusal(error);
      const field = questionFieldOf(said);
      setAnswer(undefined);
      if (field === undefined) setRefusal(inFormWords(said));
      else {
        setProblems({ [field]: problemWords(said) });
        focusWrong();
      }
    } finally {
      clearTimeout(first);
      // The answer by formula is no longer needed.
      stop.abort();
      if (asking.current === stop) setWait(undefined);
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
            label={formLabels.memoryBytes}
            placeholder={gpuHere?.isHere === true ? 'that of the card' : 'such as 24GiB'}
            hint="Of each device, CUDA context included; or name a card below"
          />
          <TextField {...bind('gpus')} label={formLabels.gpus} placeholder="1 (default)" numeric />
          <ChoiceField
            {...bind('maxBatch')}
            label={formLabels.maxBatch}
            choices={[
              ['', 'the settings that fit'],
              ['yes', formChoices.maxBatch.true],
            ]}
          />
        </div>
      )}
      {serving === undefined ? (
        <WorkloadFields
          draft={draft}
          problems={problems}
          set={set}
          assumed={assumed}
          planned={plan}
          otherModes={plan ? [] : servingChoices}
        />
      ) : (
        <ServingFields mode={serving} bind={bind} assumed={assumed ?? {}} />
      )}
      {refusal !== undefined && <RefusalNote refusal={refusal} />}
      <div class="actions">
        <button type="submit" class="primary" disabled={wait !== undefined}>
          {plan ? 'Plan' : 'Estimate'}
        </button>
        {wait !== undefined && (
          <button
            type="button"
            onClick={() => {
              asking.current.abort();
              setWait(undefined);
            }}
          >
            Stop
          </button>
        )}
      </div>
      {wait !== undefined && <Progress {...wait} />}
      <div aria-live="polite">
        {answer?.kind === 'plan' && plan && <PlanAnswer plan={answer.plan} />}
        {answer?.kind === 'estimate' && !plan && (
          <EstimateAnswer estimate={answer.estimate} infers={draft.mode === 'infer'} />
        )}
      </div>
    </form>
  );
}

interface Wait {
  readonly sinceMs: number;
  /** Whether an answer by formula is shown while the whole one is made. */
  readonly isFirstShown: boolean;
}

/** How long it has taken so far: a trace of a large model takes more than a minute. */
function Progress({ sinceMs, isFirstShown }: Wait) {
  const seconds = Math.max(0, (useNow() - sinceMs) / 1000);
  return (
    <div class="waiting">
      <progress aria-label="The answer is made" />
      <p class="soft" role="status">
        {isFirstShown
          ? 'The answer below is by formula. The model is being traced, which is more accurate.'
          : 'The model is being read, then traced.'}{' '}
        A large model takes minutes.
      </p>
      <p class="soft">{coarse(seconds)} so far</p>
    </div>
  );
}

async function answerTo(
  kind: 'plan' | 'estimate',
  question: Question,
  signal: AbortSignal,
): Promise<AnswerView> {
  return kind === 'plan'
    ? { kind, plan: await postQuestion<PlanDocument>('plan', question, signal) }
    : { kind, estimate: await postQuestion<EstimateDocument>('estimate', question, signal) };
}

/** Most answers are there by then. */
const firstAfterMs = 2000;

/** After a while asks for the answer by formula, which takes a second, to show it until the whole one is there. */
function firstAnswer(
  kind: 'plan' | 'estimate',
  question: Question,
  signal: AbortSignal,
  show: (answer: AnswerView) => void,
): ReturnType<typeof setTimeout> {
  let isOver = signal.aborted;
  signal.addEventListener('abort', () => {
    isOver = true;
  });
  return setTimeout(() => {
    if (question.method !== undefined || question.mode === 'serve' || isOver) return;
    answerTo(kind, { ...question, method: 'formula' }, signal).then(
      (found) => {
        if (!isOver) show(found);
        return undefined;
      },
      // The whole answer says what is wrong.
      () => undefined,
    );
  }, firstAfterMs);
}

/** Modes that only an estimate has. */
const servingChoices = [
  ['generate', formChoices.mode.generate],
  ['serve', formChoices.mode.serve],
] as const;

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
function ServingFields(props: {
  mode: 'generate' | 'serve';
  assumed: Assumptions;
  bind: (field: Field) => Bound;
}) {
  const { mode, assumed } = props;
  const bind = (field: Field) => ({ ...props.bind(field), label: formLabels[field] });
  const choice = (field: keyof typeof assumed & Field, names: readonly string[]) => (
    <ChoiceField {...bind(field)} choices={openChoices(names, assumed[field])} />
  );
  return (
    <div class="fields">
      <ModelField {...bind('model')} hint="A path on the server: config.json or folder" />
      <ChoiceField
        {...bind('mode')}
        choices={[
          ['train', formChoices.mode.train],
          ['infer', formChoices.mode.infer],
          ...servingChoices,
        ]}
      />
      {mode === 'generate' ? (
        <>
          <TextField {...bind('batch')} placeholder="such as 8" hint="Texts at once" numeric />
          <TextField {...bind('prompt')} placeholder="such as 512" numeric />
          <TextField {...bind('new')} placeholder="such as 256" numeric />
          <TextField {...bind('beams')} placeholder={String(assumed.beams ?? '')} numeric />
        </>
      ) : (
        <>
          {choice('engine', ['vllm', 'llama.cpp', 'transformers'])}
          <TextField
            {...bind('maxModelLen')}
            placeholder={String(assumed.maxModelLen ?? "the model's own")}
            numeric
          />
          <TextField
            {...bind('gpuMemoryUtilization')}
            placeholder={String(assumed.gpuMemoryUtilization ?? '')}
          />
          {choice('kvPrecision', ['bf16', 'fp16', 'fp8', 'q8_0', 'q4_0'])}
          <ChoiceField
            {...bind('quantization')}
            choices={openChoices(quantizationPresets, 'none')}
          />
        </>
      )}
      {choice('precision', ['bf16', 'fp16', 'fp32'])}
      <CardField {...bind('gpu')} optional />
    </div>
  );
}

/** The memory of a workload, and whether the card has it, in the words of `plimsoll estimate`. */
export function EstimateAnswer(props: { estimate: EstimateDocument; infers: boolean }) {
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
      <InLessMemory estimate={estimate} />
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

const curveSize = { width: 320, height: 120 } as const;

/** Memory against the time of a step, to choose from: a curve with its interval, and the same as a table. */
function InLessMemory({ estimate }: { estimate: EstimateDocument }) {
  const { spill = [], peak } = estimate;
  if (spill.length === 0) return null;
  const slowest = Math.max(...spill.map(({ slowdown }) => slowdown.high), 1.5);
  const x = (bytes: number) => (bytes / peak.deviceBytes) * curveSize.width;
  const y = (value: number) => curveSize.height * (1 - (value - 1) / (slowest - 1));
  const whole = { memoryBytes: peak.deviceBytes, slowdown: { low: 1, expected: 1, high: 1 } };
  const points = [whole, ...spill];
  const path = (of: (point: SpillPoint) => number, all: readonly SpillPoint[] = points) =>
    all.map((point) => `${x(point.memoryBytes)},${y(of(point))}`).join(' ');
  const band = `${path(({ slowdown }) => slowdown.low)} ${path(({ slowdown }) => slowdown.high, points.toReversed())}`;
  return (
    <>
      <h3 id="spill-title">{spillTitle}</h3>
      <svg
        class="spill-curve"
        viewBox={`0 0 ${curveSize.width} ${curveSize.height}`}
        width={curveSize.width}
        height={curveSize.height}
        role="img"
        aria-labelledby="spill-title"
      >
        <polygon points={band} fill="currentColor" opacity="0.15" />
        <polyline
          points={path(({ slowdown }) => slowdown.expected)}
          fill="none"
          stroke="currentColor"
          stroke-width="1.5"
        />
      </svg>
      <table class="parts">
        <caption class="aside">The time of a step, as a multiple of its own</caption>
        <tbody>
          {spill.map(({ memoryBytes, slowdown: { low, expected, high } }) => (
            <tr key={memoryBytes}>
              <th scope="row">{formatBytes(memoryBytes)}</th>
              <td class="number">{times(expected)}</td>
              <td class="number">
                {times(low)} to {times(high)}
              </td>
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
