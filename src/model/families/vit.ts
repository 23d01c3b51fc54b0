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
  patchesOf,
  plainFeedForward,
} from './family.js';

function addBody(vit: ParameterList, fields: ConfigFields, masked: boolean): void {
  const hidden = fields.size('hidden_size');
  const inner = fields.size('intermediate_size');
  const qkvBias = fields.flag('qkv_bias');
  const patch = fields.square('patch_size');
  const embeddings = vit.scope('embeddings');
  embeddings.tensor('cls_token', [1, 1, hidden]);
  if (masked) embeddings.tensor('mask_token', [1, 1, hidden]);
  embeddings.tensor('position_embeddings', [1, patchesOf(fields) + 1, hidden]);
  const channels = fields.size('num_channels');
  embeddings.convolution('patch_embeddings.projection', [hidden, channels, ...patch]);
  vit.norm('layernorm', hidden);
  const layer = vit.scope('layers.*', fields.layers('num_hidden_layers'));
  for (const name of ['q_proj', 'k_proj', 'v_proj']) {
    layer.linear(`attention.${name}`, hidden, hidden, qkvBias);
  }
  layer.linear('attention.o_proj', hidden, hidden);
  layer.norm('layernorm_before', hidden);
  layer.norm('layernorm_after', hidden);
  layer.linear('mlp.fc1', hidden, inner);
  layer.linear('mlp.fc2', inner, hidden);
}

function describe(fields: ConfigFields, _: string, head: Head): FamilyParts {
  const hidden = fields.size('hidden_size');
  const heads = fields.size('num_attention_heads');
  const channels = fields.size('num_channels');
  const parameters = new ParameterList();
  const body = parameters.scope(head === 'none' ? '' : 'vit');
  addBody(body, fields, head === 'masked-image');
  let outputs = 0;
  if (head === 'none') {
    body.linear('pooler.dense', hidden, fields.optionalSize('pooler_output_size') ?? hidden);
  } else if (head === 'masked-image') {
    outputs = fields.size('encoder_stride') ** 2 * channels;
    parameters.convolution('decoder.*', [outputs, hidden, 1, 1]);
  } else {
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
        patchSize: fields.square('patch_size'),
        extraTokens: 1,
      },
      dropout: {
        ...noDropout,
        embedding: fields.number('hidden_dropout_prob'),
        attention: fields.number('attention_probs_dropout_prob'),
        hidden: fields.number('hidden_dropout_prob'),
      },
      layers: equalLayers(fields.layers('num_hidden_layers'), {
        hidden,
        attention: equalHeads(fields, hidden, heads, { bias: fields.flag('qkv_bias') }),
        feedForward: plainFeedForward(fields.size('intermediate_size'), fields.text('hidden_act')),
        parallel: false,
        norm: 'layer',
        norms: 2,
      }),
    },
  );
}

export const vitFamilies: Readonly<Record<string, FamilyRules>> = {
  vit: {
    family: 'vit',
    classes: new Map<string, Head>([
      ['ViTForImageClassification', 'image-classification'],
      ['ViTForMaskedImageModeling', 'masked-image'],
      ['ViTModel', 'none'],
    ]),
    table: {
      defaults: {
        hidden_size: 768,
        num_hidden_layers: 12,
        num_attention_heads: 12,
        intermediate_size: 3072,
        hidden_act: 'gelu',
        hidden_dropout_prob: 0,
        attention_probs_dropout_prob: 0,
        image_size: 224,
        patch_size: 16,
        num_channels: 3,
        qkv_bias: true,
        encoder_stride: 16,
        pooler_output_size: null,
      },
    },
    describe,
  },
};
