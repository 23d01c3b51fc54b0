import { useEffect, useRef, useState } from 'preact/hooks';
import { knownGpus } from '../../src/estimate/cards/gpu-table.js';
import { parallelWays } from '../../src/estimate/parallel.js';
import { cacheTypes } from '../../src/estimate/serving/kv-cache.js';
import { engines } from '../../src/estimate/serving/serve-estimate.js';
import { optimizers, precisions, quantizationPresets } from '../../src/estimate/types.js';
import { formChoices, formLabels } from '../../src/plan/answers/wording.js';
import { formatBytes } from '../../src/units/bytes.js';
import { Refusal } from '../src/api/refusal.js';
import { Emblem } from '../src/parts/emblem.js';
import { AreaField, ChoiceField, TextField } from '../src/parts/field.js';
import { RefusalNote } from '../src/parts/refusal-note.js';
import { openChoices } from '../src/parts/workload-fields.js';
import { useStore } from '../src/state/live/store.js';
import { nextTheme, theme } from '../src/state/page/theme.js';
import { EstimateAnswer } from '../src/views/answers/workload-form.js';
import type { CalculatorAnswer, CurvePoint } from './answer.js';
import {
  askedFields,
  type CalculatorDraft,
  type CalculatorField,
  commandOf,
  draftFrom,
  hashOf,
} from './question.js';
import type { Along, CalculatorReply } from './worker.js';

const labels: Readonly<Record<CalculatorField, string>> = {
  ...formLabels,
  config: 'A config.json, pasted',
  gpus: 'GPUs',
  parallel: 'Spread over them by',
};

interface Shown {
  readonly answer?: CalculatorAnswer | undefined;
  readonly refusal?: Refusal | undefined;
  readonly curves: Readonly<Partial<Record<Along, readonly CurvePoint[]>>>;
}

/** Typing goes on for as long; then the question is asked. */
const pauseMs = 200;

/** Does it fit? The question, and the answer below it while one types. */
export function Calculator() {
  const [draft, setDraft] = useState<CalculatorDraft>(() => draftFrom(location.hash));
  const [file, setFile] = useState<File | undefined>(undefined);
  const { shown, names, isBusy } = useAnswer(draft, file);
  useEffect(() => {
    const follow = () => setDraft(draftFrom(location.hash));
    addEventListener('hashchange', follow);
    return () => removeEventListener('hashchange', follow);
  }, []);
  const set = (field: CalculatorField, value: string) =>
    setDraft((before) => {
      const after = { ...before, [field]: value };
      history.replaceState(null, '', hashOf(after));
      return after;
    });
  return (
    <>
      <header class="top">
        <a class="home" href="#">
          <Emblem />
          <span>Plimsoll</span>
        </a>
        <div class="tools">
          <ThemeButton />
        </div>
      </header>
      <main id="content">
        <h1>Does it fit?</h1>
        <p class="lede">
          The GPU memory that a PyTorch job needs, estimated in this page. Nothing is sent anywhere.
        </p>
        <div class="two">
          <Question draft={draft} set={set} names={names} file={file} setFile={setFile} />
          <div class="found" aria-live="polite" aria-busy={isBusy}>
            {shown.refusal !== undefined && <RefusalNote refusal={shown.refusal} />}
            {shown.answer !== undefined && <Found found={shown.answer} draft={draft} />}
            {shown.answer !== undefined && <Curves {...shown} found={shown.answer} />}
            {shown.answer !== undefined && <Cards found={shown.answer} />}
            <Command draft={draft} command={shown.answer?.command ?? commandOf(draft)} />
          </div>
        </div>
        <footer class="soft">
          <p>
            All figures are estimated; no GPU was asked. GiB are 1024<sup>3</sup> bytes.
          </p>
        </footer>
      </main>
    </>
  );
}

function ThemeButton() {
  const chosen = useStore(theme, (now) => now);
  return (
    <button type="button" class="quiet" onClick={nextTheme}>
      <span class="aside">Colours: </span>
      {chosen}
    </button>
  );
}

/** Asks the worker after a pause in typing, and keeps the newest answer. */
function useAnswer(draft: CalculatorDraft, file: File | undefined) {
  const [shown, setShown] = useState<Shown>({ curves: {} });
  const [isBusy, setBusy] = useState(true);
  const [names, setNames] = useState<readonly string[]>([]);
  const worker = useRef<Worker | undefined>(undefined);
  const last = useRef(0);
  useEffect(() => {
    const program = document.getElementById('worker')?.textContent ?? '';
    const blob = new Blob([program], { type: 'text/javascript' });
    const started = new Worker(URL.createObjectURL(blob));
    worker.current = started;
    started.addEventListener('message', ({ data }: MessageEvent<CalculatorReply>) => {
      if ('names' in data) return setNames(data.names);
      if (data.id !== last.current) return;
      setBusy(false);
      setShown((before) => withReply(before, data));
    });
    return () => started.terminate();
  }, []);
  useEffect(() => {
    setBusy(true);
    last.current += 1;
    const id = last.current;
    const wait = setTimeout(() => worker.current?.postMessage({ id, draft, file }), pauseMs);
    return () => clearTimeout(wait);
  }, [draft, file]);
  return { shown, names, isBusy };
}

function withReply(before: Shown, reply: Exclude<CalculatorReply, { names: unknown }>): Shown {
  if ('answer' in reply) return { answer: reply.answer, curves: {} };
  if ('refusal' in reply) return { refusal: new Refusal(0, reply.refusal), curves: {} };
  const { along, point } = reply;
  return {
    ...before,
    curves: { ...before.curves, [along]: [...(before.curves[along] ?? []), point] },
  };
}

interface QuestionProps {
  readonly draft: CalculatorDraft;
  readonly set: (field: CalculatorField, value: string) => void;
  /** Models that are known by name. */
  readonly names: readonly string[];
  readonly file: File | undefined;
  readonly setFile: (file: File | undefined) => void;
}

function Question({ draft, set, names, file, setFile }: QuestionProps) {
  const bind = (field: CalculatorField) => ({
    label: labels[field],
    value: draft[field],
    problem: undefined,
    set: (value: string) => set(field, value),
  });
  const own = askedFields(draft);
  return (
    <form class="form" onSubmit={(event) => event.preventDefault()} noValidate>
      <div class="fields">
        <ChoiceField
          {...bind('mode')}
          choices={[
            ['train', formChoices.mode.train],
            ['infer', formChoices.mode.infer],
            ['serve', formChoices.mode.serve],
          ]}
        />
        <TextField
          {...bind('model')}
          hint={`${names.length} names are known; or give a file below`}
          suggestions={names.map((name) => [name, name] as const)}
        />
        <TextField
          {...bind('gpu')}
          suggestions={knownGpus.map(
            ({ name, capacityBytes }) => [name, formatBytes(capacityBytes)] as const,
          )}
        />
        {own.map((field) => (
          <OwnField key={field} field={field} bind={bind} />
        ))}
      </div>
      <details open={draft.config !== '' || file !== undefined}>
        <summary>A model of your own</summary>
        <AreaField {...bind('config')} rows={6} wide placeholder={'{"model_type": "llama", …}'} />
        <div class="field wide">
          <label class="label" for="weights">
            A .safetensors file: its header is read here and is not sent
          </label>
          <input
            id="weights"
            type="file"
            accept=".safetensors"
            onChange={(event) => setFile(event.currentTarget.files?.[0])}
          />
        </div>
      </details>
    </form>
  );
}

interface Bound {
  readonly label: string;
  readonly value: string;
  readonly problem: undefined;
  readonly set: (value: string) => void;
}

const choicesOf: Partial<Record<CalculatorField, readonly string[]>> = {
  precision: precisions,
  optimizer: optimizers,
  quantization: quantizationPresets.filter((preset) => preset !== 'cpu'),
  checkpointing: ['yes'],
  parallel: parallelWays,
  engine: engines,
  kvPrecision: Object.keys(cacheTypes),
};

/** The value that an empty field stands for. */
const usual: Partial<Record<CalculatorField, string>> = {
  batch: '1',
  seq: 'from the model',
  image: 'from the model',
  precision: 'published',
  optimizer: 'adamw',
  lora: 'none',
  quantization: 'none',
  checkpointing: 'no',
  gpus: '1',
  parallel: 'ddp',
  engine: 'vllm',
  maxModelLen: "the model's own",
  kvPrecision: 'as the weights',
};

function OwnField({
  field,
  bind,
}: {
  field: CalculatorField;
  bind: (field: CalculatorField) => Bound;
}) {
  const choices = choicesOf[field];
  if (choices !== undefined) {
    return <ChoiceField {...bind(field)} choices={openChoices(choices, usual[field])} />;
  }
  return <TextField {...bind(field)} placeholder={usual[field] ?? ''} numeric />;
}

const basisWords: Readonly<Record<string, string>> = {
  formula: 'by formula: every operation of the model, through the simulated allocator',
  rule: 'by a rule for several GPUs, from the formula of one',
  'traced table': 'from a table of traces that were made ahead',
};

function Found({ found, draft }: { found: CalculatorAnswer; draft: CalculatorDraft }) {
  const { estimate, gpu, serve, subject, basis } = found;
  return (
    <>
      <p class="basis soft">
        {subject} on one {gpu.name}; {basisWords[basis] ?? basis}.
      </p>
      <EstimateAnswer
        estimate={{ ...estimate, gpu, ...(serve !== undefined && { serve }) }}
        infers={draft.mode === 'infer'}
      />
    </>
  );
}

const alongWords: Readonly<Record<Along, string>> = {
  batch: 'Batch',
  sequence: 'Tokens of a sequence',
  image: "Pixels of an image's edge",
};

function Curves({ curves, found }: Pick<Shown, 'curves'> & { found: CalculatorAnswer }) {
  const all = (['batch', 'sequence', 'image'] as const).flatMap((along) => {
    const points = curves[along] ?? [];
    return points.length < 2 ? [] : [{ along, points }];
  });
  if (all.length === 0) return null;
  return (
    <section aria-labelledby="curves-title">
      <h2 id="curves-title">Over batch and length</h2>
      <div class="curves">
        {all.map(({ along, points }) => (
          <Curve
            key={along}
            name={alongWords[along]}
            points={points}
            card={found.gpu.capacityBytes}
          />
        ))}
      </div>
    </section>
  );
}

const size = { width: 360, height: 170, left: 12, right: 24, top: 22, bottom: 30 };

/** The memory at each value, with the card as a line; the axis doubles from place to place. */
function Curve(props: { name: string; points: readonly CurvePoint[]; card: number }) {
  const { name, points, card } = props;
  const most = Math.max(card, ...points.map((point) => point.deviceBytes)) * 1.05;
  const logs = points.map(({ at }) => Math.log2(at));
  const [first = 0, last = 1] = [logs[0], logs.at(-1)];
  const x = (at: number) =>
    size.left +
    ((Math.log2(at) - first) / Math.max(1e-9, last - first)) *
      (size.width - size.left - size.right);
  const y = (bytes: number) =>
    size.top + (1 - bytes / most) * (size.height - size.top - size.bottom);
  const line = points.map(({ at, deviceBytes }) => `${x(at)},${y(deviceBytes)}`).join(' ');
  const values = points
    .map(({ at, deviceBytes }) => `${at}: ${formatBytes(deviceBytes)}`)
    .join('; ');
  return (
    <figure class="curve">
      <figcaption>{name}</figcaption>
      <svg
        viewBox={`0 0 ${size.width} ${size.height}`}
        role="img"
        aria-label={`${name}. ${values}`}
      >
        <line class="card-line" x1={0} x2={size.width} y1={y(card)} y2={y(card)} />
        <text class="card-words" x={0} y={y(card) - 5}>
          {formatBytes(card)}
        </text>
        <polyline points={line} />
        {points.map(({ at, deviceBytes }, index) => (
          <g key={at} class={deviceBytes > card ? 'sunk' : ''}>
            <circle cx={x(at)} cy={y(deviceBytes)} r={4}>
              <title>{`${at}: ${formatBytes(deviceBytes)}`}</title>
            </circle>
            <text x={x(at)} y={size.height - 12} text-anchor={index === 0 ? 'start' : 'middle'}>
              {at}
            </text>
          </g>
        ))}
      </svg>
    </figure>
  );
}

const fitWords = { yes: 'fits', barely: 'should fit', no: 'too small' } as const;

function Cards({ found: { cards, estimate } }: { found: CalculatorAnswer }) {
  const smallest = cards.find(({ fits }) => fits === 'yes');
  return (
    <section aria-labelledby="cards-title">
      <h2 id="cards-title">Cards</h2>
      <p>
        {smallest === undefined
          ? 'No card of the table surely has the memory.'
          : `The smallest card that surely fits: ${smallest.name}, ${formatBytes(smallest.capacityBytes)}.`}{' '}
        The smallest capacity on which it runs: {formatBytes(estimate.peak.leastCapacityBytes)}.
      </p>
      <details>
        <summary>All {cards.length} cards</summary>
        <table class="cards">
          <caption class="aside">Cards and whether the job fits them</caption>
          <tbody>
            {cards.map(({ name, capacityBytes, fits }) => (
              <tr key={name}>
                <th scope="row">{name}</th>
                <td class="number">{formatBytes(capacityBytes)}</td>
                <td class={`fits ${fits}`}>{fitWords[fits]}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </section>
  );
}

function Command({ draft, command }: { draft: CalculatorDraft; command: string }) {
  const [status, setStatus] = useState('');
  const copy = (text: string, what: string) => {
    navigator.clipboard.writeText(text).then(
      () => setStatus(`${what} is copied.`),
      () => setStatus('The browser does not allow copying here.'),
    );
  };
  return (
    <section aria-labelledby="command-title">
      <h2 id="command-title">In a terminal</h2>
      <p class="soft">
        The same question; with Python and torch it is traced, which is more exact.
      </p>
      <pre class="paste">{command}</pre>
      <p class="actions">
        <button type="button" onClick={() => copy(command, 'The command')}>
          Copy the command
        </button>
        <button
          type="button"
          onClick={() => copy(`${location.href.split('#')[0]}${hashOf(draft)}`, 'The link')}
        >
          Copy a link to this question
        </button>
        <span class="soft" role="status">
          {status}
        </span>
      </p>
    </section>
  );
}
