import type { ConfigFields } from '../config/config-fields.js';
import type { Head } from '../model.js';
import type { ParameterList } from '../parameter-list.js';
import {
  addDecoderHead,
  equalHeads,
  equalLayers,
  type FamilyParts,
  type FamilyRules,
  noDropout,
  oneStack,
  plainFeedForward,
} from './family.js';

/** GPT-2 keeps its matrices the other way round: rows are inputs. */
function addTransposed(scope: ParameterList, name: string, input: number, output: number): void {
  scope.tensor(`${name}.weight`, [input, output]);
  scope.tensor(`${name}.bias`, [output]);
}

function addLayer(layer: ParameterList, hidden: number, inner: number, cross: boolean): void {
  layer.norm('ln_1', hidden);
  addTransposed(layer, 'attn.c_attn', hidden, 3 * hidden);
  addTransposed(layer, 'attn.c_proj', hidden, hidden);
  layer.norm('ln_2', hidden);
  if (cross) {
    addTransposed(layer, 'crossattention.c_attn', hidden, 2 * hidden);
    addTransposed(layer, 'crossattention.q_attn', hidden, hidden);
    addTransposed(layer, 'crossattention.c_proj', hidden, hidden);
    layer.norm('ln_cross_attn', hidden);
  }
  addTransposed(layer, 'mlp.c_fc', hidden, inner);
  addTransposed(layer, 'mlp.c_proj', inner, hidden);
}

function describe(fields: ConfigFields, head: Head): FamilyParts {
  const hidden = fields.size('n_embd');
  const layers = fields.layers('n_layer');
  const heads = fields.size('n_head');
  const inner = fields.optionalSize('n_inner') ?? 4 * hidden;
  const vocabulary = fields.size('vocab_size');
  const positions = fields.size('n_positions');
  const tied = fields.flag('tie_word_embeddings');
  const cross = fields.flag('add_cross_attention');
  const { body, parameters, outputs } = addDecoderHead(
    fields,
    head,
    { body: 'transformer', tokenHead: 'classifier' },
    { hidden, vocabulary, tied },
  );
  body.embedding('wte', vocabulary, hidden);
  body.embedding('wpe', positions, hidden);
  body.norm('ln_f', hidden);
  addLayer(body.scope('h.*', layers), hidden, inner, cross);
  const attention = equalHeads(fields, hidden, heads, { fused: true });
  return oneStack(
    { kind: 'decoder', head, outputs, tied, parameters },
    {
      role: 'text',
      hidden,
      input: { kind: 'tokens', vocabulary, maxPositions: positions, positions: 'learned' },
      dropout: {
        ...noDropout,
        embedding: fields.number('embd_pdrop'),
        attention: fields.number('attn_pdrop'),
        hidden: fields.number('resid_pdrop'),
      },
      layers: equalLayers(layers, {
        hidden,
        attention,
        ...(cross ? { crossAttention: attention } : {}),
        feedForward: plainFeedForward(inner, fields.text('activation_function')),
        parallel: false,
        norm: 'layer',
        norms: cross ? 3 : 2,
      }),
    },
  );
}

export const gpt2Families: Readonly<Record<string, FamilyRules>> = {
  gpt2: {
    family: 'gpt2',
    classes: new Map<string, Head>([
      ['GPT2LMHeadModel', 'lm'],
      ['GPT2ForSequenceClassification', 'sequence-classification'],
      ['GPT2ForTokenClassification', 'token-classification'],
      ['GPT2ForQuestionAnswering', 'question-answering'],
      ['GPT2Model', 'none'],
    ]),
    table: {
      defaults: {
        vocab_size: 50257,
        n_positions: 1024,
        n_embd: 768,
        n_layer: 12,
        n_head: 12,
        n_inner: null,
        activation_function: 'gelu_new',
        resid_pdrop: 0.1,
        embd_pdrop: 0.1,
        attn_pdrop: 0.1,
        add_cross_attention: false,
        tie_word_embeddings: true,
      },
      aliases: {
        n_embd: ['hidden_size'],
        n_positions: ['max_position_embeddings'],
        n_head: ['num_attention_heads'],
        n_layer: ['num_hidden_layers'],
      },
    },
    describe: (fields, _, head) => describe(fields, head),
  },
};
