import type { ConfigFields, ConfigValues } from '../config/config-fields.js';
import type { Head } from '../model.js';
import { ParameterList } from '../parameter-list.js';
import {
  equalHeads,
  equalLayers,
  type FamilyParts,
  type FamilyRules,
  noDropout,
  plainFeedForward,
  tokenInput,
} from './family.js';

/** Parts that a BERT class adds on top, beside its kind of head. */
interface ClassParts {
  readonly head: Head;
  readonly pooler: boolean;
  readonly sentencePair?: boolean;
  /** One score for each choice, whatever the number of labels. */
  readonly singleOutput?: boolean;
}

const bertClasses: Readonly<Record<string, ClassParts>> = {
  BertForMaskedLM: { head: 'masked-lm', pooler: false },
  BertLMHeadModel: { head: 'lm', pooler: false },
  BertForPreTraining: { head: 'pretraining', pooler: true, sentencePair: true },
  BertForNextSentencePrediction: {
    head: 'sequence-classification',
    pooler: true,
    sentencePair: true,
  },
  BertForSequenceClassification: { head: 'sequence-classification', pooler: true },
  BertForMultipleChoice: { head: 'sequence-classification', pooler: true, singleOutput: true },
  BertForTokenClassification: { head: 'token-classification', pooler: false },
  BertForQuestionAnswering: { head: 'question-answering', pooler: false },
  BertModel: { head: 'none', pooler: true },
};

const robertaClasses: Readonly<Record<string, ClassParts>> = {
  RobertaForMaskedLM: { head: 'masked-lm', pooler: false },
  RobertaForCausalLM: { head: 'lm', pooler: false },
  RobertaForSequenceClassification: { head: 'sequence-classification', pooler: false },
  RobertaForMultipleChoice: { head: 'sequence-classification', pooler: true, singleOutput: true },
  RobertaForTokenClassification: { head: 'token-classification', pooler: false },
  RobertaForQuestionAnswering: { head: 'question-answering', pooler: false },
  RobertaModel: { head: 'none', pooler: true },
};

const defaults: ConfigValues = {
  vocab_size: 30522,
  hidden_size: 768,
  num_hidden_layers: 12,
  num_attention_heads: 12,
  intermediate_size: 3072,
  hidden_act: 'gelu',
  hidden_dropout_prob: 0.1,
  attention_probs_dropout_prob: 0.1,
  max_position_embeddings: 512,
  type_vocab_size: 2,
  is_decoder: false,
  add_cross_attention: false,
  tie_word_embeddings: true,
};

function addBody(body: ParameterList, fields: ConfigFields, hidden: number, cross: boolean): void {
  const inner = fields.size('intermediate_size');
  const embeddings = body.scope('embeddings');
  embeddings.embedding('word_embeddings', fields.size('vocab_size'), hidden);
  embeddings.embedding('position_embeddings', fields.size('max_position_embeddings'), hidden);
  embeddings.embedding('token_type_embeddings', fields.size('type_vocab_size'), hidden);
  embeddings.norm('LayerNorm', hidden);
  const layer = body.scope('encoder.layer.*', fields.layers('num_hidden_layers'));
  for (const attention of cross ? ['attention', 'crossattention'] : ['attention']) {
    for (const name of ['self.query', 'self.key', 'self.value', 'output.dense']) {
      layer.linear(`${attention}.${name}`, hidden, hidden);
    }
    layer.norm(`${attention}.output.LayerNorm`, hidden);
  }
  layer.linear('intermediate.dense', hidden, inner);
  layer.linear('output.dense', inner, hidden);
  layer.norm('output.LayerNorm', hidden);
}

/** The names of the language head are all that differs between the two families there. */
const languageHeads = {
  bert: {
    dense: 'cls.predictions.transform.dense',
    norm: 'cls.predictions.transform.LayerNorm',
    output: 'cls.predictions',
  },
  roberta: { dense: 'lm_head.dense', norm: 'lm_head.layer_norm', output: 'lm_head' },
} as const;

function addHead(
  parameters: ParameterList,
  fields: ConfigFields,
  family: 'bert' | 'roberta',
  parts: ClassParts,
  tied: boolean,
): number {
  const hidden = fields.size('hidden_size');
  const vocabulary = fields.size('vocab_size');
  if (parts.head === 'masked-lm' || parts.head === 'lm' || parts.head === 'pretraining') {
    const names = languageHeads[family];
    parameters.linear(names.dense, hidden, hidden);
    parameters.norm(names.norm, hidden);
    parameters.tensor(`${names.output}.bias`, [vocabulary]);
    if (!tied) parameters.linear(`${names.output}.decoder`, hidden, vocabulary);
    if (parts.sentencePair === true) parameters.linear('cls.seq_relationship', hidden, 2);
    return vocabulary;
  }
  if (parts.head === 'none') return 0;
  if (parts.sentencePair === true) {
    parameters.linear('cls.seq_relationship', hidden, 2);
    return 2;
  }
  const outputs = parts.singleOutput === true ? 1 : fields.labels();
  if (parts.head === 'question-answering') parameters.linear('qa_outputs', hidden, outputs);
  else if (family === 'roberta' && parts.head === 'sequence-classification' && !parts.pooler) {
    // RoBERTa pools inside its classifier.
    parameters.linear('classifier.dense', hidden, hidden);
    parameters.linear('classifier.out_proj', hidden, outputs);
  } else parameters.linear('classifier', hidden, outputs);
  return outputs;
}

function describe(
  fields: ConfigFields,
  family: 'bert' | 'roberta',
  parts: ClassParts,
): FamilyParts {
  const hidden = fields.size('hidden_size');
  const layers = fields.layers('num_hidden_layers');
  const heads = fields.size('num_attention_heads');
  const tied = fields.flag('tie_word_embeddings');
  const cross = fields.flag('is_decoder') && fields.flag('add_cross_attention');
  const parameters = new ParameterList();
  const body = parameters.scope(parts.head === 'none' ? '' : family);
  addBody(body, fields, hidden, cross);
  if (parts.pooler) body.linear('pooler.dense', hidden, hidden);
  const outputs = addHead(parameters, fields, family, parts, tied);
  const attention = equalHeads(fields, hidden, heads);
  const dropout = fields.number('hidden_dropout_prob');
  return {
    kind: fields.flag('is_decoder') ? 'decoder' : 'encoder',
    head: parts.head,
    outputs,
    tied,
    parameters,
    stacks: [
      {
        role: 'text',
        hidden,
        input: tokenInput(fields, fields.size('vocab_size'), 'learned'),
        dropout: {
          ...noDropout,
          embedding: dropout,
          attention: fields.number('attention_probs_dropout_prob'),
          hidden: dropout,
        },
        layers: equalLayers(layers, {
          hidden,
          attention,
          ...(cross ? { crossAttention: attention } : {}),
          feedForward: plainFeedForward(
            fields.size('intermediate_size'),
            fields.text('hidden_act'),
          ),
          parallel: false,
          norm: 'layer',
          norms: cross ? 3 : 2,
        }),
      },
    ],
  };
}

function rules(
  family: 'bert' | 'roberta',
  classes: Readonly<Record<string, ClassParts>>,
  usual: ClassParts,
  values: ConfigValues,
): FamilyRules {
  return {
    family,
    classes: new Map(Object.entries(classes).map(([name, { head }]) => [name, head])),
    table: { defaults: values },
    describe: (fields, className) => describe(fields, family, classes[className] ?? usual),
  };
}

const masked: ClassParts = { head: 'masked-lm', pooler: false };

export const bertFamilies: Readonly<Record<string, FamilyRules>> = {
  bert: rules('bert', bertClasses, masked, defaults),
  roberta: rules('roberta', robertaClasses, masked, { ...defaults, vocab_size: 50265 }),
};
