import type { ConfigFields, FieldTable } from '../config/config-fields.js';
import type { Head, LayerGroup, Stack } from '../model.js';
import { ParameterList } from '../parameter-list.js';
import {
  equalHeads,
  equalLayers,
  type FamilyParts,
  type FamilyRules,
  noDropout,
  patchesOf,
  plainFeedForward,
  tokenInput,
} from './family.js';

const textTable: FieldTable = {
  defaults: {
    vocab_size: 49408,
    hidden_size: 512,
    intermediate_size: 2048,
    projection_dim: 512,
    num_hidden_layers: 12,
    num_attention_heads: 8,
    max_position_embeddings: 77,
    hidden_act: 'quick_gelu',
    attention_dropout: 0,
  },
};

const visionTable: FieldTable = {
  defaults: {
    hidden_size: 768,
    intermediate_size: 3072,
    projection_dim: 512,
    num_hidden_layers: 12,
    num_attention_heads: 12,
    num_channels: 3,
    image_size: 224,
    patch_size: 32,
    hidden_act: 'quick_gelu',
    attention_dropout: 0,
  },
};

function addText(tower: ParameterList, fields: ConfigFields): void {
  const hidden = fields.size('hidden_size');
  tower.embedding('embeddings.token_embedding', fields.size('vocab_size'), hidden);
  const positions = fields.size('max_position_embeddings');
  tower.embedding('embeddings.position_embedding', positions, hidden);
  addClipLayers(tower.scope('encoder'), fields);
  tower.norm('final_layer_norm', hidden);
}

function addVision(tower: ParameterList, fields: ConfigFields): void {
  const hidden = fields.size('hidden_size');
  const [edge] = fields.square('patch_size');
  tower.tensor('embeddings.class_embedding', [hidden]);
  const channels = fields.size('num_channels');
  tower.convolution('embeddings.patch_embedding', [hidden, channels, edge, edge], false);
  tower.embedding('embeddings.position_embedding', patchesOf(fields) + 1, hidden);
  // Misspelt so in the model itself.
  tower.norm('pre_layrnorm', hidden);
  addClipLayers(tower.scope('encoder'), fields);
  tower.norm('post_layernorm', hidden);
}

function describeBoth(fields: ConfigFields, _: string, head: Head): FamilyParts {
  const text = fields.nested('text_config', textTable);
  const vision = fields.nested('vision_config', visionTable);
  const parameters = new ParameterList();
  addVision(parameters.scope('vision_model'), vision);
  if (head === 'image-classification') {
    const outputs = fields.labels();
    if (outputs > 0) parameters.linear('classifier', vision.size('hidden_size'), outputs);
    return {
      kind: 'vision',
      head,
      outputs,
      tied: false,
      stacks: [imageStack(vision, 1)],
      parameters,
    };
  }
  const outputs = fields.size('projection_dim');
  parameters.tensor('logit_scale', []);
  addText(parameters.scope('text_model'), text);
  parameters.linear('visual_projection', vision.size('hidden_size'), outputs, false);
  parameters.linear('text_projection', text.size('hidden_size'), outputs, false);
  const stacks = [captionStack(text), imageStack(vision, 1)];
  return { kind: 'image-and-text', head, outputs, tied: false, stacks, parameters };
}

function describeText(fields: ConfigFields, _: string, head: Head): FamilyParts {
  const parameters = new ParameterList();
  const stacks = [captionStack(fields)];
  addText(parameters.scope(head === 'none' ? '' : 'text_model'), fields);
  const outputs = head === 'none' ? 0 : fields.size('projection_dim');
  if (outputs > 0) parameters.linear('text_projection', fields.size('hidden_size'), outputs, false);
  return { kind: 'encoder', head, outputs, tied: false, stacks, parameters };
}

function describeVision(fields: ConfigFields, _: string, head: Head): FamilyParts {
  const parameters = new ParameterList();
  const stacks = [imageStack(fields, 1)];
  addVision(parameters.scope(head === 'none' ? '' : 'vision_model'), fields);
  const outputs = head === 'none' ? 0 : fields.size('projection_dim');
  if (outputs > 0)
    parameters.linear('visual_projection', fields.size('hidden_size'), outputs, false);
  return { kind: 'vision', head, outputs, tied: false, stacks, parameters };
}

export const clipFamilies: Readonly<Record<string, FamilyRules>> = {
  clip: {
    family: 'clip',
    classes: new Map<string, Head>([
      ['CLIPModel', 'contrastive'],
      ['CLIPForImageClassification', 'image-classification'],
    ]),
    table: { defaults: { projection_dim: 512 } },
    describe: describeBoth,
  },
  clip_text_model: {
    family: 'clip',
    classes: new Map<string, Head>([
      ['CLIPTextModel', 'none'],
      ['CLIPTextModelWithProjection', 'projection'],
    ]),
    table: textTable,
    describe: describeText,
  },
  clip_vision_model: {
    family: 'clip',
    classes: new Map<string, Head>([
      ['CLIPVisionModel', 'none'],
      ['CLIPVisionModelWithProjection', 'projection'],
    ]),
    table: visionTable,
    describe: describeVision,
  },
};

/** The layers that CLIP's two towers and SigLIP's share. */
export function addClipLayers(encoder: ParameterList, fields: ConfigFields): void {
  const hidden = fields.size('hidden_size');
  const inner = fields.size('intermediate_size');
  const layer = encoder.scope('layers.*', fields.layers('num_hidden_layers'));
  for (const name of ['k_proj', 'v_proj', 'q_proj', 'out_proj']) {
    layer.linear(`self_attn.${name}`, hidden, hidden);
  }
  layer.norm('layer_norm1', hidden);
  layer.norm('layer_norm2', hidden);
  layer.linear('mlp.fc1', hidden, inner);
  layer.linear('mlp.fc2', inner, hidden);
}

function layersOf(fields: ConfigFields): readonly LayerGroup[] {
  const hidden = fields.size('hidden_size');
  const heads = fields.size('num_attention_heads');
  return equalLayers(fields.layers('num_hidden_layers'), {
    hidden,
    attention: equalHeads(fields, hidden, heads),
    feedForward: plainFeedForward(fields.size('intermediate_size'), fields.text('hidden_act')),
    parallel: false,
    norm: 'layer',
    norms: 2,
  });
}

export function imageStack(fields: ConfigFields, extraTokens: number): Stack {
  return {
    role: 'vision',
    hidden: fields.size('hidden_size'),
    input: {
      kind: 'image',
      channels: fields.size('num_channels'),
      imageSize: fields.square('image_size'),
      patchSize: fields.square('patch_size'),
      extraTokens,
    },
    dropout: { ...noDropout, attention: fields.number('attention_dropout') },
    layers: layersOf(fields),
  };
}

function captionStack(fields: ConfigFields): Stack {
  return {
    role: 'text',
    hidden: fields.size('hidden_size'),
    input: tokenInput(fields, fields.size('vocab_size'), 'learned'),
    dropout: { ...noDropout, attention: fields.number('attention_dropout') },
    layers: layersOf(fields),
  };
}
