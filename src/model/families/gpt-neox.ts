import type { ConfigFields } from '../config/config-fields.js';
import type { Head } from '../model.js';
import {
  addDecoderHead,
  decoderClasses,
  equalHeads,
  equalLayers,
  type FamilyParts,
  type FamilyRules,
  noDropout,
  oneStack,
  tokenInput,
} from './family.js';

function describe(fields: ConfigFields, head: Head): FamilyParts {
  const hidden = fields.size('hidden_size');
  const layers = fields.layers('num_hidden_layers');
  const heads = fields.size('num_attention_heads');
  const inner = fields.size('intermediate_size');
  const vocabulary = fields.size('vocab_size');
  const tied = fields.flag('tie_word_embeddings');
  const bias = fields.flag('attention_bias');
  const { body, parameters, outputs } = addDecoderHead(
    fields,
    head,
    { body: 'gpt_neox', tokenHead: 'classifier' },
    { hidden, vocabulary, tied },
  );
  body.embedding('embed_in', vocabulary, hidden);
  body.norm('final_layer_norm', hidden);
  const layer = body.scope('layers.*', layers);
  layer.norm('input_layernorm', hidden);
  layer.norm('post_attention_layernorm', hidden);
  layer.linear('attention.query_key_value', hidden, 3 * hidden, bias);
  layer.linear('attention.dense', hidden, hidden, bias);
  layer.linear('mlp.dense_h_to_4h', hidden, inner);
  layer.linear('mlp.dense_4h_to_h', inner, hidden);
  return oneStack(
    { kind: 'decoder', head, outputs, tied, parameters },
    {
      role: 'text',
      hidden,
      input: tokenInput(fields, vocabulary, 'rotary'),
      dropout: {
        ...noDropout,
        embedding: fields.number('hidden_dropout'),
        attention: fields.number('attention_dropout'),
        hidden: fields.number('hidden_dropout'),
      },
      layers: equalLayers(layers, {
        hidden,
        attention: equalHeads(fields, hidden, heads, { fused: true, bias }),
        feedForward: { inner, gated: false, activation: fields.text('hidden_act'), bias: true },
        parallel: fields.flag('use_parallel_residual'),
        norm: 'layer',
        norms: 2,
      }),
    },
  );
}

export const gptNeoxFamilies: Readonly<Record<string, FamilyRules>> = {
  gpt_neox: {
    family: 'gpt_neox',
    classes: decoderClasses('GPTNeoX'),
    table: {
      defaults: {
        vocab_size: 50432,
        hidden_size: 6144,
        num_hidden_layers: 44,
        num_attention_heads: 64,
        intermediate_size: 24576,
        hidden_act: 'gelu',
        attention_dropout: 0,
        hidden_dropout: 0,
        max_position_embeddings: 2048,
        tie_word_embeddings: false,
        use_parallel_residual: true,
        attention_bias: true,
      },
    },
    describe: (fields, _, head) => describe(fields, head),
  },
};
