import type { ConfigFields } from '../config/config-fields.js';
import type { Attention, FeedForward, Head, Stack } from '../model.js';
import { ParameterList } from '../parameter-list.js';
import { equalLayers, type FamilyParts, type FamilyRules, noDropout } from './family.js';

/** A config may say it outright, or in the name of its activation. */
function isGated(fields: ConfigFields): boolean {
  if (fields.has('is_gated_act')) return fields.flag('is_gated_act');
  return fields.text('feed_forward_proj').startsWith('gated-');
}

/** Each part of a block is a numbered layer with its own norm. */
function addStack(
  scope: ParameterList,
  fields: ConfigFields,
  layers: number,
  decoder: boolean,
): void {
  const hidden = fields.size('d_model');
  const inner = fields.size('d_ff');
  const heads = fields.size('num_heads');
  const attended = heads * fields.size('d_kv');
  scope.norm('final_layer_norm', hidden, 'rms');
  const layer = scope.scope('block.*.layer.*', layers);
  for (const name of decoder ? ['SelfAttention', 'EncDecAttention'] : ['SelfAttention']) {
    for (const part of ['q', 'k', 'v']) layer.linear(`${name}.${part}`, hidden, attended, false);
    layer.linear(`${name}.o`, attended, hidden, false);
  }
  for (const part of isGated(fields) ? ['wi_0', 'wi_1'] : ['wi']) {
    layer.linear(`DenseReluDense.${part}`, hidden, inner, false);
  }
  layer.linear('DenseReluDense.wo', inner, hidden, false);
  layer.scope('', decoder ? 3 : 2).norm('layer_norm', hidden, 'rms');
  // Only the first block has the table; the others reuse what it computes.
  const buckets = fields.size('relative_attention_num_buckets');
  const first = scope.scope('block.*.layer.*', Math.min(1, layers));
  first.embedding('SelfAttention.relative_attention_bias', buckets, heads);
}

function stackOf(fields: ConfigFields, role: 'encoder' | 'decoder', layers: number): Stack {
  const hidden = fields.size('d_model');
  const heads = fields.size('num_heads');
  const attention: Attention = {
    reach: 'full',
    heads,
    kvHeads: heads,
    headDim: fields.size('d_kv'),
    fused: false,
    bias: false,
    queryKeyNorm: false,
    positionBias: true,
  };
  const { positionBias: _, ...crossAttention } = attention;
  const feedForward: FeedForward = {
    inner: fields.size('d_ff'),
    gated: isGated(fields),
    activation: activationOf(fields),
    bias: false,
  };
  const dropout = fields.number('dropout_rate');
  return {
    role,
    hidden,
    input: {
      kind: 'tokens',
      vocabulary: fields.size('vocab_size'),
      maxPositions: 'unknown',
      positions: 'relative',
    },
    dropout: {
      ...noDropout,
      embedding: dropout,
      attention: dropout,
      hidden: dropout,
      activation: dropout,
    },
    layers: equalLayers(layers, {
      hidden,
      attention,
      ...(role === 'decoder' ? { crossAttention } : {}),
      feedForward,
      parallel: false,
      norm: 'rms',
      norms: role === 'decoder' ? 3 : 2,
    }),
  };
}

/** transformers takes the tanh form of GELU where a config says `gated-gelu`. */
function activationOf(fields: ConfigFields): string {
  if (fields.has('dense_act_fn')) return fields.text('dense_act_fn');
  const written = fields.text('feed_forward_proj');
  return written === 'gated-gelu' ? 'gelu_new' : written.replace(/^gated-/, '');
}

function describe(fields: ConfigFields, className: string, head: Head): FamilyParts {
  const vocabulary = fields.size('vocab_size');
  const layers = fields.layers('num_layers');
  const parameters = new ParameterList();
  parameters.embedding('shared', vocabulary, fields.size('d_model'));
  addStack(parameters.scope('encoder'), fields, layers, false);
  const stacks = [stackOf(fields, 'encoder', layers)];
  const encoderOnly = className === 'T5EncoderModel';
  if (!encoderOnly) {
    const given = fields.optionalSize('num_decoder_layers');
    const decoderLayers = given === undefined ? layers : fields.layers('num_decoder_layers');
    addStack(parameters.scope('decoder'), fields, decoderLayers, true);
    stacks.push(stackOf(fields, 'decoder', decoderLayers));
  }
  return {
    kind: encoderOnly ? 'encoder' : 'encoder-decoder',
    head,
    outputs: head === 'lm' ? vocabulary : 0,
    // transformers 5 builds it tied, also where a config says otherwise.
    tied: true,
    stacks,
    parameters,
  };
}

export const t5Families: Readonly<Record<string, FamilyRules>> = {
  t5: {
    family: 't5',
    classes: new Map<string, Head>([
      ['T5ForConditionalGeneration', 'lm'],
      ['T5EncoderModel', 'none'],
      ['T5Model', 'none'],
    ]),
    table: {
      defaults: {
        vocab_size: 32128,
        d_model: 512,
        d_kv: 64,
        d_ff: 2048,
        num_layers: 6,
        num_decoder_layers: null,
        num_heads: 8,
        relative_attention_num_buckets: 32,
        dropout_rate: 0.1,
        feed_forward_proj: 'relu',
      },
      aliases: {
        d_model: ['hidden_size'],
        num_heads: ['num_attention_heads'],
        num_layers: ['num_hidden_layers'],
        d_kv: ['head_dim'],
      },
    },
    describe,
  },
};
