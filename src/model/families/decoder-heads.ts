import type { ConfigFields } from '../config/config-fields.js';
import { ParameterList } from '../parameter-list.js';
import type { Head } from '../types.js';

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

/** Where families name or build the same head differently. */
export interface DecoderHeadQuirks {
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

export interface DecoderHead {
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
