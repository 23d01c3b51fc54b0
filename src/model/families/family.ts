import type { ConfigFields, FieldTable } from '../config/config-fields.js';
import type {
  Attention,
  Dropout,
  Family,
  FeedForward,
  Head,
  LayerGroup,
  ModelKind,
  Stack,
  StackInput,
} from '../model.js';
import { ParameterList } from '../parameter-list.js';

/** The parts that a family's rules read from a config. */
export interface FamilyParts {
  readonly kind: ModelKind;
  readonly head: Head;
  readonly outputs: number;
  readonly tied: boolean;
  readonly stacks: readonly Stack[];
  readonly parameters: ParameterList;
}

/** How one `model_type` is read. */
export interface FamilyRules {
  readonly family: Family;
  readonly table: FieldTable;
  /** Classes whose parameters are known, each with its head; the first is the one usually trained. */
  readonly classes: ReadonlyMap<string, Head>;
  describe(fields: ConfigFields, className: string, head: Head): FamilyParts;
}

export const noDropout: Dropout = {
  embedding: 0,
  attention: 0,
  hidden: 0,
  activation: 0,
  path: 0,
};

/** Joins neighbours that are alike, so that a model of equal layers has one group. */
export function groupLayers(layers: readonly Omit<LayerGroup, 'count'>[]): readonly LayerGroup[] {
  const groups: LayerGroup[] = [];
  let before = '';
  for (const layer of layers) {
    const key = JSON.stringify(layer);
    const last = groups.at(-1);
    if (last !== undefined && key === before)
      groups[groups.length - 1] = { ...last, count: last.count + 1 };
    else groups.push({ ...layer, count: 1 });
    before = key;
  }
  return groups;
}

/** `count` layers that are all alike. */
export function equalLayers(
  count: number,
  layer: Omit<LayerGroup, 'count'>,
): readonly LayerGroup[] {
  return count === 0 ? [] : [{ ...layer, count }];
}

/** Attention in which every head has keys and values of its own, over the whole input. */
export function equalHeads(
  fields: ConfigFields,
  hidden: number,
  heads: number,
  quirks: Partial<Pick<Attention, 'fused' | 'bias' | 'queryKeyNorm'>> = {},
): Attention {
  return {
    reach: 'full',
    heads,
    kvHeads: heads,
    headDim: quotient(fields, hidden, heads),
    fused: false,
    bias: true,
    queryKeyNorm: false,
    ...quirks,
  };
}

/** Two linear layers with an activation between them. */
export function plainFeedForward(inner: number, activation: string, bias = true): FeedForward {
  return { inner, gated: false, activation, bias };
}

export function tokenInput(
  fields: ConfigFields,
  vocabulary: number,
  positions: Extract<StackInput, { kind: 'tokens' }>['positions'],
): StackInput {
  const maxPositions = fields.size('max_position_embeddings');
  return { kind: 'tokens', vocabulary, maxPositions, positions };
}

/** A model of one stack of layers. */
export function oneStack(parts: Omit<FamilyParts, 'stacks'>, stack: Stack): FamilyParts {
  return { ...parts, stacks: [stack] };
}

/** Whole patches that fit into the image, as torch counts them. */
export function patchesOf(fields: ConfigFields): number {
  const [height, width] = fields.square('image_size');
  const [patchHeight, patchWidth] = fields.square('patch_size');
  return Math.floor(height / patchHeight) * Math.floor(width / patchWidth);
}

/** Two matrices up, one down, by their names in the families that descend from Llama. */
export function addGatedFeedForward(
  mlp: ParameterList,
  hidden: number,
  inner: number,
  bias: boolean,
  fused = false,
): void {
  if (fused) mlp.linear('gate_up_proj', hidden, 2 * inner, bias);
  else {
    mlp.linear('gate_proj', hidden, inner, bias);
    mlp.linear('up_proj', hidden, inner, bias);
  }
  mlp.linear('down_proj', inner, hidden, bias);
}

/** The classifier over a whole recording, alike in Whisper and Wav2Vec2. Answers its classes. */
export function addSpeechClassifier(
  parameters: ParameterList,
  fields: ConfigFields,
  hidden: number,
  layers: number,
): number {
  const outputs = fields.labels();
  const projected = fields.size('classifier_proj_size');
  // A weight for each layer and for what goes into the first.
  if (fields.flag('use_weighted_layer_sum')) parameters.tensor('layer_weights', [layers + 1]);
  parameters.linear('projector', hidden, projected);
  parameters.linear('classifier', projected, outputs);
  return outputs;
}

const suffixes = {
  causal: ['ForCausalLM', 'lm'],
  sequence: ['ForSequenceClassification', 'sequence-classification'],
  token: ['ForTokenClassification', 'token-classification'],
  question: ['ForQuestionAnswering', 'question-answering'],
  bare: ['Model', 'none'],
} as const satisfies Record<string, readonly [string, Head]>;

type Suffix = keyof typeof suffixes;

/** Class names of a decoder family: its prefix with each of the usual endings it has. */
export function decoderClasses(
  prefix: string,
  without: readonly Suffix[] = [],
): ReadonlyMap<string, Head> {
  const classes = new Map<string, Head>();
  for (const key of ['causal', 'sequence', 'token', 'question', 'bare'] as const) {
    const [suffix, head] = suffixes[key];
    if (!without.includes(key)) classes.set(prefix + suffix, head);
  }
  return classes;
}

/** Differences in the name or build of the same head. */
interface DecoderHeadQuirks {
  /** Name of the body inside a class with a head. */
  readonly body: string;
  /** Its name under question answering, where that differs. */
  readonly questionBody?: string;
  /** Name of the token classifier. */
  readonly tokenHead: 'score' | 'classifier';
  /** The language head. */
  readonly languageHead?: string;
  readonly languageHeadBias?: boolean;
}

interface DecoderHead {
  /** Parameters of the body go here. */
  readonly body: ParameterList;
  readonly parameters: ParameterList;
  readonly outputs: number;
}

/** Adds the parameters of a head; `hidden` is what the body puts out. */
export function addDecoderHead(
  fields: ConfigFields,
  head: Head,
  quirks: DecoderHeadQuirks,
  sizes: { readonly hidden: number; readonly vocabulary: number; readonly tied: boolean },
): DecoderHead {
  const parameters = new ParameterList();
  const bodyName =
    head === 'question-answering' ? (quirks.questionBody ?? quirks.body) : quirks.body;
  const body = parameters.scope(head === 'none' ? '' : bodyName);
  const { hidden, vocabulary, tied } = sizes;
  let outputs = 0;
  if (head === 'lm') {
    outputs = vocabulary;
    const name = quirks.languageHead ?? 'lm_head';
    if (!tied) parameters.linear(name, hidden, vocabulary, false);
    if (quirks.languageHeadBias === true) parameters.tensor(`${name}.bias`, [vocabulary]);
  } else if (head === 'sequence-classification') {
    outputs = fields.labels();
    parameters.linear('score', hidden, outputs, false);
  } else if (head === 'token-classification') {
    outputs = fields.labels();
    parameters.linear(quirks.tokenHead, hidden, outputs);
  } else if (head === 'question-answering') {
    // The start and the end of the answer, whatever the number of labels.
    outputs = 2;
    parameters.linear('qa_outputs', hidden, outputs);
  }
  return { body, parameters, outputs };
}

/** Torch rounds down, and a head without elements cannot be built. */
export function quotient(fields: ConfigFields, hidden: number, heads: number): number {
  const headDim = Math.floor(hidden / heads);
  if (headDim > 0) return headDim;
  throw fields.bad('num_attention_heads', `${heads}, more than the hidden size of ${hidden}`);
}
