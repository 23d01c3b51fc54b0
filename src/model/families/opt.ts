import type { ConfigFields } from '../config/config-fields.js';
import type { Head } from '../model.js';
import type { ParameterList } from '../parameter-list.js';
import {
  addDecoderHead,
  decoderClasses,
  equalHeads,
  equalLayers,
  type FamilyParts,
  type FamilyRules,
  noDropout,
  oneStack,
  plainFeedForward,
  tokenInput,
} from './family.js';

/** Rows that OPT's position table has before position 0. */
const positionOffset = 2;

function addBody(decoder: ParameterList, fields: ConfigFields, embedded: number): void {
  const hidden = fields.size('hidden_size');
  const inner = fields.size('ffn_dim');
  const bias = fields.flag('enable_bias');
  const affine = fields.flag('layer_norm_elementwise_affine');
  decoder.embedding('embed_tokens', fields.size('vocab_size'), embedded);
  const positions = fields.size('max_position_embeddings') + positionOffset;
  decoder.embedding('embed_positions', positions, hidden);
  if (embedded !== hidden) {
    decoder.linear('project_in', embedded, hidden, false);
    decoder.linear('project_out', hidden, embedded, false);
  }
  const finalNorm = fields.flag('do_layer_norm_before') && !fields.flag('_remove_final_layer_norm');
  if (finalNorm && affine) decoder.norm('final_layer_norm', hidden);
  const layer = decoder.scope('layers.*', fields.layers('num_hidden_layers'));
  for (const name of ['k_proj', 'v_proj', 'q_proj', 'out_proj']) {
    layer.linear(`self_attn.${name}`, hidden, hidden, bias);
  }
  layer.linear('fc1', hidden, inner, bias);
  layer.linear('fc2', inner, hidden, bias);
  if (!affine) return;
  layer.norm('self_attn_layer_norm', hidden);
  layer.norm('final_layer_norm', hidden);
}

function describe(fields: ConfigFields, head: Head): FamilyParts {
  const hidden = fields.size('hidden_size');
  const layers = fields.layers('num_hidden_layers');
  const heads = fields.size('num_attention_heads');
  const vocabulary = fields.size('vocab_size');
  const tied = fields.flag('tie_word_embeddings');
  const bias = fields.flag('enable_bias');
  const embedded = fields.optionalSize('word_embed_proj_dim') ?? hidden;
  const { body, parameters, outputs } = addDecoderHead(
    fields,
    head,
    { body: 'model', tokenHead: 'score' },
    { hidden: embedded, vocabulary, tied },
  );
  addBody(body.scope('decoder'), fields, embedded);
  return oneStack(
    { kind: 'decoder', head, outputs, tied, parameters },
    {
      role: 'text',
      hidden,
      input: tokenInput(fields, vocabulary, 'learned'),
      dropout: {
        ...noDropout,
        attention: fields.number('attention_dropout'),
        hidden: fields.number('dropout'),
        path: fields.number('layerdrop'),
      },
      layers: equalLayers(layers, {
        hidden,
        attention: equalHeads(fields, hidden, heads, { bias }),
        feedForward: plainFeedForward(
          fields.size('ffn_dim'),
          fields.text('activation_function'),
          bias,
        ),
        parallel: false,
        norm: 'layer',
        norms: 2,
      }),
    },
  );
}

export const optFamilies: Readonly<Record<string, FamilyRules>> = {
  opt: {
    family: 'opt',
    classes: decoderClasses('OPT', ['token']),
    table: {
      defaults: {
        vocab_size: 50272,
        hidden_size: 768,
        num_hidden_layers: 12,
        ffn_dim: 3072,
        max_position_embeddings: 2048,
        do_layer_norm_before: true,
        _remove_final_layer_norm: false,
        word_embed_proj_dim: null,
        dropout: 0.1,
        attention_dropout: 0,
        num_attention_heads: 12,
        activation_function: 'relu',
        layerdrop: 0,
        enable_bias: true,
        layer_norm_elementwise_affine: true,
        tie_word_embeddings: true,
      },
    },
    describe: (fields, _, head) => describe(fields, head),
  },
};
