import type { ConfigFields, FieldTable } from '../config/config-fields.js';
import { ParameterList } from '../parameter-list.js';
import type { Head } from '../types.js';
import { addClipLayers, captionStack, imageStack } from './clip-layers.js';
import type { FamilyParts, FamilyRules } from './family.js';
import { patchesOf } from './patches.js';

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
