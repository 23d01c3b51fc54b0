import type { ConfigFields } from '../config/config-fields.js';
import type { Head } from '../model.js';
import {
  addDecoderHead,
  decoderClasses,
  equalLayers,
  type FamilyParts,
  type FamilyRules,
  noDropout,
  oneStack,
  quotient,
  tokenInput,
} from './family.js';

/** A decoder with two plain matrices in each feed-forward part, which reads what attention reads. */
export function describePhi(
  fields: ConfigFields,
  head: Head,
  languageHeadBias: boolean,
): FamilyParts {
  const hidden = fields.size('hidden_size');
  const layers = fields.layers('num_hidden_layers');
  const heads = fields.size('num_attention_heads');
  const kvHeads = fields.optionalSize('num_key_value_heads') ?? heads;
  const headDim = fields.optionalSize('head_dim') ?? quotient(fields, hidden, heads);
  const inner = fields.size('intermediate_size');
  const vocabulary = fields.size('vocab_size');
  const tied = fields.flag('tie_word_embeddings');
  const queryKeyNorm = fields.flag('qk_layernorm');
  const { body, parameters, outputs } = addDecoderHead(
    fields,
    head,
    { body: 'model', tokenHead: 'score', languageHeadBias },
    { hidden, vocabulary, tied },
  );
  body.embedding('embed_tokens', vocabulary, hidden);
  body.norm('final_layernorm', hidden);
  const layer = body.scope('layers.*', layers);
  layer.linear('self_attn.q_proj', hidden, heads * headDim);
  layer.linear('self_attn.k_proj', hidden, kvHeads * headDim);
  layer.linear('self_attn.v_proj', hidden, kvHeads * headDim);
  layer.linear('self_attn.dense', heads * headDim, hidden);
  if (queryKeyNorm) {
    // By the quotient, also where the config gives another size of head.
    const normed = quotient(fields, hidden, heads);
    layer.norm('self_attn.q_layernorm', normed);
    layer.norm('self_attn.k_layernorm', normed);
  }
  layer.linear('mlp.fc1', hidden, inner);
  layer.linear('mlp.fc2', inner, hidden);
  layer.norm('input_layernorm', hidden);
  return oneStack(
    { kind: 'decoder', head, outputs, tied, parameters },
    {
      role: 'text',
      hidden,
      input: tokenInput(fields, vocabulary, 'rotary'),
      dropout: {
        ...noDropout,
        embedding: fields.number('embd_pdrop'),
        attention: fields.number('attention_dropout'),
        hidden: fields.number('resid_pdrop'),
      },
      layers: equalLayers(layers, {
        hidden,
        attention: {
          reach: 'full',
          heads,
          kvHeads,
          headDim,
          fused: false,
          bias: true,
          queryKeyNorm,
        },
        feedForward: { inner, gated: false, activation: fields.text('hidden_act'), bias: true },
        parallel: true,
        norm: 'layer',
        norms: 1,
      }),
    },
  );
}

export const phiFamilies: Readonly<Record<string, FamilyRules>> = {
  phi: {
    family: 'phi',
    classes: decoderClasses('Phi', ['question']),
    table: {
      defaults: {
        vocab_size: 51200,
        hidden_size: 2048,
        intermediate_size: 8192,
        num_hidden_layers: 24,
        num_attention_heads: 32,
        num_key_value_heads: null,
        head_dim: null,
        resid_pdrop: 0,
        embd_pdrop: 0,
        attention_dropout: 0,
        hidden_act: 'gelu_new',
        max_position_embeddings: 2048,
        tie_word_embeddings: false,
        qk_layernorm: false,
      },
    },
    describe: (fields, _, head) => describePhi(fields, head, true),
  },
};
