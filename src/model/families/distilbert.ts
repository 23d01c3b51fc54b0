import type { ConfigFields } from '../config/config-fields.js';
import type { Head } from '../model.js';
import { ParameterList } from '../parameter-list.js';
import {
  equalHeads,
  equalLayers,
  type FamilyParts,
  type FamilyRules,
  noDropout,
  oneStack,
  plainFeedForward,
  tokenInput,
} from './family.js';

const classes: ReadonlyMap<string, Head> = new Map([
  ['DistilBertForMaskedLM', 'masked-lm'],
  ['DistilBertForSequenceClassification', 'sequence-classification'],
  ['DistilBertForMultipleChoice', 'sequence-classification'],
  ['DistilBertForTokenClassification', 'token-classification'],
  ['DistilBertForQuestionAnswering', 'question-answering'],
  ['DistilBertModel', 'none'],
]);

function addBody(body: ParameterList, fields: ConfigFields): void {
  const hidden = fields.size('dim');
  const inner = fields.size('hidden_dim');
  body.embedding('embeddings.word_embeddings', fields.size('vocab_size'), hidden);
  const positions = fields.size('max_position_embeddings');
  body.embedding('embeddings.position_embeddings', positions, hidden);
  body.norm('embeddings.LayerNorm', hidden);
  const layer = body.scope('transformer.layer.*', fields.layers('n_layers'));
  for (const name of ['q_lin', 'k_lin', 'v_lin', 'out_lin']) {
    layer.linear(`attention.${name}`, hidden, hidden);
  }
  layer.norm('sa_layer_norm', hidden);
  layer.linear('ffn.lin1', hidden, inner);
  layer.linear('ffn.lin2', inner, hidden);
  layer.norm('output_layer_norm', hidden);
}

function addHead(
  parameters: ParameterList,
  fields: ConfigFields,
  className: string,
  head: Head,
): number {
  const hidden = fields.size('dim');
  if (head === 'none') return 0;
  if (head === 'masked-lm') {
    const vocabulary = fields.size('vocab_size');
    parameters.linear('vocab_transform', hidden, hidden);
    parameters.norm('vocab_layer_norm', hidden);
    parameters.tensor('vocab_projector.bias', [vocabulary]);
    if (!fields.flag('tie_word_embeddings')) {
      parameters.tensor('vocab_projector.weight', [vocabulary, hidden]);
    }
    return vocabulary;
  }
  const outputs = className.endsWith('MultipleChoice') ? 1 : fields.labels();
  if (head === 'question-answering') parameters.linear('qa_outputs', hidden, outputs);
  else {
    if (head === 'sequence-classification') parameters.linear('pre_classifier', hidden, hidden);
    parameters.linear('classifier', hidden, outputs);
  }
  return outputs;
}

function describe(fields: ConfigFields, className: string, head: Head): FamilyParts {
  const hidden = fields.size('dim');
  const heads = fields.size('n_heads');
  const parameters = new ParameterList();
  addBody(parameters.scope(head === 'none' ? '' : 'distilbert'), fields);
  const outputs = addHead(parameters, fields, className, head);
  return oneStack(
    { kind: 'encoder', head, outputs, tied: fields.flag('tie_word_embeddings'), parameters },
    {
      role: 'text',
      hidden,
      input: tokenInput(fields, fields.size('vocab_size'), 'learned'),
      dropout: {
        ...noDropout,
        embedding: fields.number('dropout'),
        attention: fields.number('attention_dropout'),
        hidden: fields.number('dropout'),
      },
      layers: equalLayers(fields.layers('n_layers'), {
        hidden,
        attention: equalHeads(fields, hidden, heads),
        feedForward: plainFeedForward(fields.size('hidden_dim'), fields.text('activation')),
        parallel: false,
        norm: 'layer',
        norms: 2,
      }),
    },
  );
}

export const distilbertFamilies: Readonly<Record<string, FamilyRules>> = {
  distilbert: {
    family: 'distilbert',
    classes,
    table: {
      defaults: {
        vocab_size: 30522,
        max_position_embeddings: 512,
        n_layers: 6,
        n_heads: 12,
        dim: 768,
        hidden_dim: 3072,
        dropout: 0.1,
        attention_dropout: 0.1,
        activation: 'gelu',
        tie_word_embeddings: true,
      },
      aliases: {
        dim: ['hidden_size'],
        n_heads: ['num_attention_heads'],
        n_layers: ['num_hidden_layers'],
      },
    },
    describe,
  },
};
