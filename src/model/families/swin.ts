import type { ConfigFields } from '../config/config-fields.js';
import type { Head, LayerGroup } from '../model.js';
import { ParameterList } from '../parameter-list.js';
import {
  type FamilyParts,
  type FamilyRules,
  noDropout,
  oneStack,
  patchesOf,
  quotient,
} from './family.js';

interface Stage {
  readonly depth: number;
  readonly heads: number;
  readonly hidden: number;
  readonly inner: number;
}

/** Each stage is twice as wide as the one before it. */
function stagesOf(fields: ConfigFields): readonly Stage[] {
  const width = fields.size('embed_dim');
  const ratio = fields.number('mlp_ratio');
  const heads = fields.sizes('num_heads');
  const depths = fields.depths('depths');
  // Beyond this the width passes any size there can be.
  if (depths.length > 16) throw fields.bad('depths', `a list of ${depths.length} stages`);
  return depths.map((depth, index) => {
    const hidden = width * 2 ** index;
    const headsHere = heads[index];
    if (headsHere === undefined) throw fields.bad('num_heads', 'shorter than "depths"');
    return { depth, heads: headsHere, hidden, inner: Math.floor(ratio * hidden) };
  });
}

function addStage(scope: ParameterList, fields: ConfigFields, stage: Stage, last: boolean): void {
  const { depth, heads, hidden, inner } = stage;
  const qkvBias = fields.flag('qkv_bias');
  const block = scope.scope('blocks.*', depth);
  for (const name of ['q_proj', 'k_proj', 'v_proj']) {
    block.linear(`attention.${name}`, hidden, hidden, qkvBias);
  }
  block.linear('attention.o_proj', hidden, hidden);
  const span = (2 * fields.size('window_size') - 1) ** 2;
  block.tensor('attention.relative_position_bias.relative_position_bias_table', [span, heads]);
  block.norm('layernorm_before', hidden);
  block.norm('layernorm_after', hidden);
  block.linear('mlp.fc1', hidden, inner);
  block.linear('mlp.fc2', inner, hidden);
  if (last) return;
  scope.linear('downsample.reduction', 4 * hidden, 2 * hidden, false);
  scope.norm('downsample.norm', 4 * hidden);
}

function layerOf(fields: ConfigFields, stage: Stage, index: number): LayerGroup {
  const { depth, heads, hidden, inner } = stage;
  return {
    count: depth,
    hidden,
    reduction: 2 ** index,
    attention: {
      reach: 'sliding',
      window: fields.size('window_size'),
      heads,
      kvHeads: heads,
      headDim: quotient(fields, hidden, heads),
      fused: false,
      bias: fields.flag('qkv_bias'),
      queryKeyNorm: false,
      positionBias: true,
    },
    feedForward: { inner, gated: false, activation: fields.text('hidden_act'), bias: true },
    parallel: false,
    norm: 'layer',
    norms: 2,
  };
}

function describe(fields: ConfigFields, _: string, head: Head): FamilyParts {
  const width = fields.size('embed_dim');
  const channels = fields.size('num_channels');
  const stages = stagesOf(fields);
  const hidden = stages.at(-1)?.hidden ?? width;
  const parameters = new ParameterList();
  const body = parameters.scope(head === 'none' ? '' : 'swin');
  const embeddings = body.scope('embeddings');
  const patch = fields.square('patch_size');
  embeddings.convolution('patch_embeddings.projection', [width, channels, ...patch]);
  embeddings.norm('norm', width);
  if (head === 'masked-image') embeddings.tensor('mask_token', [1, 1, width]);
  if (fields.flag('use_absolute_embeddings')) {
    embeddings.tensor('position_embeddings', [1, patchesOf(fields), width]);
  }
  stages.forEach((stage, index) => {
    addStage(body.scope('encoder.layers.*'), fields, stage, index === stages.length - 1);
  });
  body.norm('layernorm', hidden);
  let outputs = 0;
  if (head === 'masked-image') {
    outputs = fields.size('encoder_stride') ** 2 * channels;
    parameters.convolution('decoder.*', [outputs, hidden, 1, 1]);
  } else if (head === 'image-classification') {
    outputs = fields.labels();
    if (outputs > 0) parameters.linear('classifier', hidden, outputs);
  }
  return oneStack(
    { kind: 'vision', head, outputs, tied: false, parameters },
    {
      role: 'vision',
      hidden,
      input: {
        kind: 'image',
        channels,
        imageSize: fields.square('image_size'),
        patchSize: patch,
        extraTokens: 0,
      },
      dropout: {
        ...noDropout,
        embedding: fields.number('hidden_dropout_prob'),
        attention: fields.number('attention_probs_dropout_prob'),
        hidden: fields.number('hidden_dropout_prob'),
        path: fields.number('drop_path_rate'),
      },
      layers: stages.map((stage, index) => layerOf(fields, stage, index)),
    },
  );
}

export const swinFamilies: Readonly<Record<string, FamilyRules>> = {
  swin: {
    family: 'swin',
    classes: new Map<string, Head>([
      ['SwinForImageClassification', 'image-classification'],
      ['SwinForMaskedImageModeling', 'masked-image'],
      ['SwinModel', 'none'],
    ]),
    table: {
      defaults: {
        image_size: 224,
        patch_size: 4,
        num_channels: 3,
        embed_dim: 96,
        depths: [2, 2, 6, 2],
        num_heads: [3, 6, 12, 24],
        window_size: 7,
        mlp_ratio: 4,
        qkv_bias: true,
        hidden_dropout_prob: 0,
        attention_probs_dropout_prob: 0,
        drop_path_rate: 0.1,
        hidden_act: 'gelu',
        use_absolute_embeddings: false,
        encoder_stride: 32,
      },
    },
    describe,
  },
};
