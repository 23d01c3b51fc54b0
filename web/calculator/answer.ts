import { onOtherCard } from '../../src/estimate/assemble.js';
import { type Gpu, knownGpus } from '../../src/estimate/cards/gpu-table.js';
import { findGpu } from '../../src/estimate/cards/gpus.js';
import { formulaEstimate } from '../../src/estimate/formula/formula-estimate.js';
import { type Parallel, type ParallelMethod, parallelWays } from '../../src/estimate/parallel.js';
import { type CacheType, cacheTypes } from '../../src/estimate/serving/kv-cache.js';
import { weightTypes } from '../../src/estimate/serving/parts.js';
import {
  engines,
  longestRequest,
  type ServeRoom,
  serveEstimate,
  writerOf,
} from '../../src/estimate/serving/serve-estimate.js';
import {
  type Estimate,
  type Part,
  quantizationPresets,
  type Workload,
} from '../../src/estimate/types.js';
import { Failure } from '../../src/failure.js';
import { parseConfig } from '../../src/model/config/config-fields.js';
import { describeConfig } from '../../src/model/config/describe-config.js';
import type { Catalogue } from '../../src/model/names/catalogue.js';
import type { Model, ModelDescription, Weights } from '../../src/model/types.js';
import { closedWorkload } from '../../src/plan/answers/closed-workload.js';
import { type OpenWorkload, withOwnInput } from '../../src/plan/answers/plan-input.js';
import { formWording } from '../../src/plan/answers/wording.js';
import { type Verdict, verdictOf } from '../../src/report/estimate-words.js';
import { FieldReader } from '../src/state/forms/form-values.js';
import { overGpus } from './over-gpus.js';
import { type CalculatorDraft, commandOf, optimizerOf, precisionOf } from './question.js';
import { type Tables, tableEstimate } from './tables.js';

/** Everything that the page brings along. */
export interface Known {
  readonly catalogue: Catalogue;
  readonly tables: Tables;
}

/** A question with the weights of a file that the reader chose. */
export interface Asked {
  readonly draft: CalculatorDraft;
  readonly weights?: Weights | undefined;
}

/** Whether a card of the table has the memory. */
export interface CardFit {
  readonly name: string;
  readonly capacityBytes: number;
  readonly fits: Verdict['fits'];
}

export interface CalculatorAnswer {
  readonly estimate: Estimate;
  readonly serve?: ServeRoom;
  readonly gpu: Pick<Gpu, 'name' | 'capacityBytes' | 'context'>;
  readonly basis: string;
  /** The name under which the answer was found, with its size. */
  readonly subject: string;
  readonly workload?: Workload;
  readonly cards: readonly CardFit[];
  readonly command: string;
}

/** One point of a curve. */
export interface CurvePoint {
  readonly at: number;
  readonly deviceBytes: number;
}

/**
 * The answer to a question, from the formula or from a table; a `Failure` says what is wrong or unknown.
 *
 * @example
 * answer({ draft: draftFrom('#model=gpt2') }, known).estimate.peak.deviceBytes;
 */
export function answer(asked: Asked, known: Known): CalculatorAnswer {
  const { draft } = asked;
  const gpu = findGpu(draft.gpu.trim() || '4090');
  const named = tableName(draft, known);
  if (named !== undefined) {
    const workload = workloadOf(asked, undefined, gpu, named);
    const estimate = tableEstimate(named, known.tables, workload, gpu);
    return finished({ estimate, gpu, basis: 'traced table', subject: named, workload, draft });
  }
  const model = modelOf(asked, known);
  const subject = subjectOf(draft, model);
  if (draft.mode === 'serve') {
    const { serve, ...estimate } = serving(draft, model, gpu);
    return finished({ estimate, serve, gpu, basis: 'formula', subject, draft });
  }
  const workload = workloadOf(asked, model, gpu);
  const { estimate, basis } = formulaOf(asked, model, workload, gpu);
  return finished({ estimate, gpu, basis, subject, workload, draft });
}

/**
 * The peak at another batch or length of a sequence.
 *
 * @example
 * curvePoint(asked, known, found.workload, 'batch', 16);
 */
export function curvePoint(
  asked: Asked,
  known: Known,
  workload: Workload,
  along: 'batch' | 'sequence' | 'image',
  at: number,
): CurvePoint {
  const gpu = findGpu(asked.draft.gpu.trim() || '4090');
  const changed = { ...workload, [along]: at };
  const named = tableName(asked.draft, known);
  const { estimate } =
    named === undefined
      ? formulaOf(asked, modelOf(asked, known), changed, gpu)
      : { estimate: tableEstimate(named, known.tables, changed, gpu) };
  return { at, deviceBytes: estimate.peak.deviceBytes };
}

function finished(
  parts: Omit<CalculatorAnswer, 'cards' | 'command'> & { readonly draft: CalculatorDraft },
): CalculatorAnswer {
  const { draft, ...found } = parts;
  const { estimate, gpu } = found;
  const cards = knownGpus.map((card) => ({
    name: card.name,
    capacityBytes: card.capacityBytes,
    fits: verdictOf(onOtherCard(estimate, gpu, card), card).fits,
  }));
  return {
    ...found,
    cards: cards.toSorted((a, b) => a.capacityBytes - b.capacityBytes),
    command: commandOf(filledDraft(draft, found.workload)),
  };
}

/** The fields with what was assumed for those that are empty. */
function filledDraft(draft: CalculatorDraft, workload: Workload | undefined): CalculatorDraft {
  if (workload === undefined) return draft;
  const { batch, sequence = '', image = '', precision } = workload;
  const assumed = { batch: String(batch), seq: String(sequence), image: String(image), precision };
  return { ...draft, ...assumed };
}

function formulaOf(
  { draft }: Asked,
  model: Model,
  workload: Workload,
  gpu: Gpu,
): { readonly estimate: Estimate; readonly basis: string } {
  const gpus = new FieldReader(draft).whole('gpus', 1) ?? 1;
  const estimate = formulaEstimate(model, workload, gpu, formWording);
  if (gpus < 2 || workload.mode !== 'train') return { estimate, basis: 'formula' };
  if (model.description.family === 'unknown') throw onlyTraced();
  // Without the state of the optimizer the peak lies where the most is kept for the backward pass.
  const spread = { way: wayOf(draft), gpus };
  const bare = (batch: number) =>
    formulaEstimate(model, { ...bareOf(workload, spread), batch }, gpu, formWording);
  const { precision } = workload;
  const { batch } = workload;
  const rank = overGpus({
    estimate,
    backward: activationsOf(bare, batch),
    model: model.description,
    precision,
    spread,
    gpu,
  });
  return { estimate: rank, basis: 'rule' };
}

/** So large a batch that its peak lies where the most is kept for the backward pass. */
const manyTimes = 8;

/** The parts at the point of the backward pass that holds the most activations. */
function activationsOf(
  bare: (batch: number) => Estimate,
  batch: number,
): ReadonlyMap<Part, number> {
  const once = partsOf(bare(batch));
  if ((once.get('gradients') ?? 0) * 2 < (once.get('weights') ?? 0)) return once;
  const many = partsOf(bare(batch * manyTimes));
  for (const part of ['activations', 'temporary'] as const) {
    many.set(part, Math.ceil((many.get(part) ?? 0) / manyTimes));
  }
  return many;
}

function partsOf({ breakdown }: Estimate): Map<Part, number> {
  return new Map(breakdown.map(({ part, bytes }) => [part, bytes]));
}

/** FSDP casts what it gathers itself, so that its activations are those of 16 bits. */
function bareOf(workload: Workload, { way }: Parallel): Workload {
  const casts = way.startsWith('fsdp') || way === 'hsdp';
  const mixed = workload.precision.startsWith('amp-');
  const precision = casts && mixed ? precisionOf(workload.precision.slice(4)) : undefined;
  return { ...workload, optimizer: 'sgd', precision: precision ?? workload.precision };
}

function wayOf({ parallel }: CalculatorDraft): ParallelMethod {
  return parallelWays.find((one) => one === parallel) ?? 'ddp';
}

/** The name of a model that only a table knows. */
function tableName({ model, config }: CalculatorDraft, { tables }: Known): string | undefined {
  if (config.trim() !== '') return undefined;
  const name = model.trim().replace(/^torchvision:/, '');
  const inTable = Object.hasOwn(tables, name);
  if (inTable) return name;
  if (!model.trim().startsWith('torchvision:')) return undefined;
  throw new Failure({
    kind: 'input',
    code: 'no-formula',
    fact: `The memory of ${name} is unknown here: this page has no formula and no table for it.`,
    next: `Trace it, where Python and torch are installed: plimsoll estimate torchvision:${name}`,
    field: 'model',
  });
}

function modelOf({ draft, weights }: Asked, { catalogue }: Known): Model {
  const text = draft.config.trim();
  const beside = weights === undefined ? {} : { weights };
  if (text !== '') {
    return { path: 'config.json', ...beside, description: describe(text, weights) };
  }
  if (weights !== undefined) {
    const { parameters } = weights;
    const notes = ['Only the header of the weights is known; paste the config.json beside them.'];
    const unknown = { family: 'unknown', modelType: 'unknown', parameters, notes } as const;
    return { path: weights.files[0] ?? 'weights', weights, description: unknown };
  }
  const name = draft.model.trim();
  const found = catalogue.find(name);
  if (found === undefined) throw unknownName(name, catalogue.nearest(name));
  return { path: found.name, description: describeConfig(found.config, found.name) };
}

function describe(text: string, weights: Weights | undefined): ModelDescription {
  const read = describeConfig(
    parseConfig(text, 'The pasted config.json'),
    'The pasted config.json',
  );
  if (read.family !== 'unknown' || weights === undefined) return read;
  return { ...read, parameters: weights.parameters };
}

function unknownName(name: string, near: string | undefined): Failure {
  const meant = near === undefined ? '' : `Did you mean ${near}? `;
  return new Failure({
    kind: 'input',
    code: 'unknown-model',
    fact: name === '' ? 'No model is named.' : `No model "${name.slice(0, 100)}" is known here.`,
    next: `${meant}Paste its config.json, or type: plimsoll estimate ${name || 'MODEL'}`,
    field: 'model',
  });
}

function subjectOf({ model, config }: CalculatorDraft, { description, weights }: Model): string {
  const name = config.trim() === '' && weights === undefined ? model.trim() : description.modelType;
  const { parameters } = description;
  if (parameters === 'unknown') return name;
  const billions = parameters / 1e9;
  const size = billions >= 1 ? `${billions.toFixed(1)} B` : `${(parameters / 1e6).toFixed(0)} M`;
  return `${name}, ${size} parameters`;
}

/** What is typed, with what is usual for the rest. */
function workloadOf(
  { draft }: Asked,
  model: Model | undefined,
  gpu: Gpu,
  table?: string,
): Workload {
  const reader = new FieldReader(draft);
  const trains = draft.mode !== 'infer';
  const open: OpenWorkload = {
    mode: trains ? 'train' : 'infer',
    ...set('batch', reader.whole('batch', 1)),
    ...set('sequence', reader.whole('seq', 1)),
    ...set('image', reader.whole('image', 1)),
    ...set('precision', precisionOf(draft.precision)),
    ...set(
      'quantization',
      quantizationPresets.find((one) => one === draft.quantization),
    ),
    ...(trains && {
      ...set('optimizer', optimizerOf(draft.optimizer)),
      ...set('checkpointing', draft.checkpointing === 'yes' ? true : undefined),
      ...set('loraRank', reader.whole('lora', 1)),
    }),
  };
  reader.whole('gpus', 1);
  refuseProblems(reader);
  const source =
    table === undefined
      ? ({ kind: 'path', path: model?.path ?? '' } as const)
      : ({ kind: 'torchvision', name: table } as const);
  const { workload } = withOwnInput(open, source, model, gpu, { wording: formWording });
  return closedWorkload(workload, source, formWording);
}

function set<K extends keyof Workload>(field: K, value: Workload[K] | undefined): OpenWorkload {
  return value === undefined ? {} : { [field]: value };
}

function refuseProblems({ problems }: FieldReader<keyof CalculatorDraft>): void {
  const [first] = Object.entries(problems);
  if (first === undefined) return;
  const [field, fact] = first;
  throw new Failure({ kind: 'input', code: 'bad-field', fact, next: 'Correct it.', field });
}

function serving(draft: CalculatorDraft, { description, weights }: Model, gpu: Gpu) {
  const reader = new FieldReader(draft);
  const known = writerOf(description);
  const precision =
    weightTypes.find((one) => one === draft.precision) ??
    (known.dtype === 'float16' ? 'fp16' : 'bf16');
  const maxModelLen = reader.whole('maxModelLen', 1) ?? longestRequest(known);
  refuseProblems(reader);
  return serveEstimate(
    known,
    weights,
    {
      engine: engines.find((one) => one === draft.engine) ?? 'vllm',
      maxModelLen,
      utilization: 0.9,
      precision,
      cacheType: cacheTypeOf(draft.kvPrecision) ?? precision,
      quantization: quantizationPresets.find((one) => one === draft.quantization),
    },
    gpu,
  );
}

function cacheTypeOf(text: string): CacheType | undefined {
  return Object.keys(cacheTypes).find((one): one is CacheType => one === text);
}

function onlyTraced(): Failure {
  return new Failure({
    kind: 'input',
    code: 'only-traced',
    fact: 'The memory over several GPUs is unknown for a model without a formula.',
    next: 'Trace it with the command below, where Python and torch are installed.',
  });
}
