import type { ConfigFields } from '../config/config-fields.js';
import { limits } from '../limits.js';
import type { Head } from '../model.js';
import { ParameterList } from '../parameter-list.js';
import {
  addSpeechClassifier,
  equalHeads,
  equalLayers,
  type FamilyParts,
  type FamilyRules,
  noDropout,
  plainFeedForward,
} from './family.js';

interface Convolution {
  readonly channels: number;
  readonly kernel: number;
  readonly stride: number;
}

function convolutionsOf(fields: ConfigFields): readonly Convolution[] {
  const kernels = fields.sizes('conv_kernel');
  const strides = fields.sizes('conv_stride');
  const channelsOf = fields.sizes('conv_dim');
  if (channelsOf.length > limits.convolutions) {
    const most = `at most ${limits.convolutions} are taken`;
    throw fields.bad('conv_dim', `a list of ${channelsOf.length} convolutions; ${most}`);
  }
  const convolutions = channelsOf.map((channels, index) => {
    const kernel = kernels[index];
    const stride = strides[index];
    if (kernel !== undefined && stride !== undefined) return { channels, kernel, stride };
    throw fields.bad('conv_dim', 'longer than "conv_kernel" or "conv_stride"');
  });
  if (convolutions.length > 0) return convolutions;
  throw fields.bad('conv_dim', 'an empty list');
}

function addFrontEnd(
  body: ParameterList,
  fields: ConfigFields,
  convolutions: readonly Convolution[],
  extracted: number,
): void {
  const hidden = fields.size('hidden_size');
  const bias = fields.flag('conv_bias');
  // `group`: only the first convolution is normed.
  const everyNorm = fields.text('feat_extract_norm') === 'layer';
  const layer = body.scope('feature_extractor.conv_layers.*');
  convolutions.forEach(({ channels, kernel }, index) => {
    const input = convolutions[index - 1]?.channels ?? 1;
    layer.convolution('conv', [channels, input, kernel], bias);
    if (everyNorm || index === 0) layer.norm('layer_norm', channels);
  });
  body.norm('feature_projection.layer_norm', extracted);
  body.linear('feature_projection.projection', extracted, hidden);
  if (fields.number('mask_time_prob') > 0 || fields.number('mask_feature_prob') > 0) {
    body.tensor('masked_spec_embed', [hidden]);
  }
  const kernel = fields.size('num_conv_pos_embeddings');
  const perGroup = Math.floor(hidden / fields.size('num_conv_pos_embedding_groups'));
  const positions = body.scope('encoder.pos_conv_embed.conv');
  // Weight normalisation keeps a length for each tap beside the direction.
  positions.tensor('parametrizations.weight.original0', [1, 1, kernel]);
  positions.tensor('parametrizations.weight.original1', [hidden, perGroup, kernel]);
  positions.tensor('bias', [hidden]);
}

function addLayers(body: ParameterList, fields: ConfigFields): void {
  const hidden = fields.size('hidden_size');
  const inner = fields.size('intermediate_size');
  body.norm('encoder.layer_norm', hidden);
  const layer = body.scope('encoder.layers.*', fields.layers('num_hidden_layers'));
  for (const name of ['k_proj', 'v_proj', 'q_proj', 'out_proj']) {
    layer.linear(`attention.${name}`, hidden, hidden);
  }
  layer.norm('layer_norm', hidden);
  layer.linear('feed_forward.intermediate_dense', hidden, inner);
  layer.linear('feed_forward.output_dense', inner, hidden);
  layer.norm('final_layer_norm', hidden);
  const adapter = fields.optionalSize('adapter_attn_dim');
  if (adapter === undefined || !fields.flag('do_stable_layer_norm')) return;
  layer.norm('adapter_layer.norm', hidden);
  layer.linear('adapter_layer.linear_1', hidden, adapter);
  layer.linear('adapter_layer.linear_2', adapter, hidden);
}

/** Convolutions after the layers that shorten the sequence; answers the width they put out. */
function addAdapter(body: ParameterList, fields: ConfigFields, hidden: number): number {
  if (!fields.flag('add_adapter')) return hidden;
  const output = fields.optionalSize('output_hidden_size') ?? hidden;
  if (output !== hidden) {
    body.linear('adapter.proj', hidden, output);
    body.norm('adapter.proj_layer_norm', output);
  }
  const layer = body.scope('adapter.layers.*', fields.layers('num_adapter_layers'));
  layer.convolution('conv', [2 * output, output, fields.size('adapter_kernel_size')]);
  return output;
}

function addHead(
  parameters: ParameterList,
  fields: ConfigFields,
  head: Head,
  sizes: { readonly hidden: number; readonly output: number; readonly extracted: number },
): number {
  const { hidden, output, extracted } = sizes;
  if (head === 'ctc') {
    const vocabulary = fields.size('vocab_size');
    parameters.linear('lm_head', output, vocabulary);
    return vocabulary;
  }
  if (head === 'pretraining') {
    const groups = fields.size('num_codevector_groups');
    const vectors = groups * fields.size('num_codevectors_per_group');
    const size = fields.size('codevector_dim');
    const projected = fields.size('proj_codevector_dim');
    parameters.tensor('quantizer.codevectors', [1, vectors, Math.floor(size / groups)]);
    parameters.linear('quantizer.weight_proj', extracted, vectors);
    parameters.linear('project_hid', hidden, projected);
    parameters.linear('project_q', size, projected);
    return projected;
  }
  const layers = fields.layers('num_hidden_layers');
  if (head === 'audio-classification') {
    return addSpeechClassifier(parameters, fields, hidden, layers);
  }
  if (head === 'none') return 0;
  if (fields.flag('use_weighted_layer_sum')) parameters.tensor('layer_weights', [layers + 1]);
  parameters.linear('classifier', hidden, fields.labels());
  return fields.labels();
}

function describe(fields: ConfigFields, _: string, head: Head): FamilyParts {
  const hidden = fields.size('hidden_size');
  const heads = fields.size('num_attention_heads');
  const convolutions = convolutionsOf(fields);
  const extracted = convolutions.at(-1)?.channels ?? 0;
  const parameters = new ParameterList();
  const body = parameters.scope(head === 'none' ? '' : 'wav2vec2');
  addFrontEnd(body, fields, convolutions, extracted);
  addLayers(body, fields);
  const output = addAdapter(body, fields, hidden);
  return {
    kind: 'speech',
    head,
    outputs: addHead(parameters, fields, head, { hidden, output, extracted }),
    tied: false,
    parameters,
    stacks: [
      {
        role: 'speech',
        hidden,
        input: { kind: 'audio', channels: 1, convolutions, maxPositions: 'unknown' },
        dropout: {
          ...noDropout,
          embedding: fields.number('hidden_dropout'),
          attention: fields.number('attention_dropout'),
          hidden: fields.number('hidden_dropout'),
          activation: fields.number('activation_dropout'),
          path: fields.number('layerdrop'),
        },
        layers: equalLayers(fields.layers('num_hidden_layers'), {
          hidden,
          attention: equalHeads(fields, hidden, heads),
          feedForward: plainFeedForward(
            fields.size('intermediate_size'),
            fields.text('hidden_act'),
          ),
          parallel: false,
          norm: 'layer',
          norms: 2,
        }),
      },
    ],
  };
}

export const wav2vec2Families: Readonly<Record<string, FamilyRules>> = {
  wav2vec2: {
    family: 'wav2vec2',
    classes: new Map<string, Head>([
      ['Wav2Vec2ForCTC', 'ctc'],
      ['Wav2Vec2ForPreTraining', 'pretraining'],
      ['Wav2Vec2ForSequenceClassification', 'audio-classification'],
      ['Wav2Vec2ForAudioFrameClassification', 'token-classification'],
      ['Wav2Vec2Model', 'none'],
    ]),
    table: {
      defaults: {
        vocab_size: 32,
        hidden_size: 768,
        num_hidden_layers: 12,
        num_attention_heads: 12,
        intermediate_size: 3072,
        hidden_act: 'gelu',
        hidden_dropout: 0.1,
        activation_dropout: 0.1,
        attention_dropout: 0.1,
        layerdrop: 0.1,
        feat_extract_norm: 'group',
        conv_dim: [512, 512, 512, 512, 512, 512, 512],
        conv_stride: [5, 2, 2, 2, 2, 2, 2],
        conv_kernel: [10, 3, 3, 3, 3, 2, 2],
        conv_bias: false,
        num_conv_pos_embeddings: 128,
        num_conv_pos_embedding_groups: 16,
        do_stable_layer_norm: false,
        mask_time_prob: 0.05,
        mask_feature_prob: 0,
        num_codevectors_per_group: 320,
        num_codevector_groups: 2,
        codevector_dim: 256,
        proj_codevector_dim: 256,
        use_weighted_layer_sum: false,
        classifier_proj_size: 256,
        add_adapter: false,
        adapter_kernel_size: 3,
        num_adapter_layers: 3,
        output_hidden_size: null,
        adapter_attn_dim: null,
      },
    },
    describe,
  },
};
