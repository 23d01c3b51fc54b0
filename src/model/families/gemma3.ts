import type { ConfigFields, FieldTable } from '../config/config-fields.js';
import type { Head } from '../model.js';
import { ParameterList } from '../parameter-list.js';
import { addClipLayers, imageStack } from './clip.js';
import { type FamilyParts, type FamilyRules, patchesOf } from './family.js';
import { gemma3Text, gemma3TextTable } from './llama-families.js';
import { addLlamaParameters, llamaStack } from './llama-like.js';

const visionTable: FieldTable = {
  defaults: {
    hidden_size: 768,
    intermediate_size: 3072,
    num_hidden_layers: 12,
    num_attention_heads: 12,
    num_channels: 3,
    image_size: 224,
    patch_size: 16,
    hidden_act: 'gelu_pytorch_tanh',
    attention_dropout: 0,
    vision_use_head: true,
  },
};

function addVision(tower: ParameterList, fields: ConfigFields): void {
  const hidden = fields.size('hidden_size');
  const inner = fields.size('intermediate_size');
  const [edge] = fields.square('patch_size');
  const channels = fields.size('num_channels');
  tower.convolution('embeddings.patch_embedding', [hidden, channels, edge, edge]);
  tower.embedding('embeddings.position_embedding', patchesOf(fields), hidden);
  addClipLayers(tower.scope('encoder'), fields);
  tower.norm('post_layernorm', hidden);
  if (!fields.flag('vision_use_head')) return;
  const head = tower.scope('head');
  head.tensor('probe', [1, 1, hidden]);
  head.tensor('attention.in_proj_weight', [3 * hidden, hidden]);
  head.tensor('attention.in_proj_bias', [3 * hidden]);
  head.linear('attention.out_proj', hidden, hidden);
  head.norm('layernorm', hidden);
  head.linear('mlp.fc1', hidden, inner);
  head.linear('mlp.fc2', inner, hidden);
}

function describe(fields: ConfigFields, _: string, head: Head): FamilyParts {
  const text = fields.nested('text_config', gemma3TextTable);
  const vision = fields.nested('vision_config', visionTable);
  const hidden = text.size('hidden_size');
  const vocabulary = text.size('vocab_size');
  const tied = fields.flag('tie_word_embeddings');
  const parameters = new ParameterList();
  const body = parameters.scope(head === 'none' ? '' : 'model');
  addVision(body.scope('vision_tower'), vision);
  const projector = body.scope('multi_modal_projector');
  projector.tensor('mm_input_projection_weight', [vision.size('hidden_size'), hidden]);
  projector.norm('mm_soft_emb_norm', vision.size('hidden_size'), 'rms');
  addLlamaParameters(body.scope('language_model'), text, gemma3Text);
  let outputs = 0;
  if (head === 'lm') {
    outputs = vocabulary;
    if (!tied) parameters.linear('lm_head', hidden, vocabulary, false);
  } else if (head === 'sequence-classification') {
    outputs = fields.labels();
    parameters.linear('score', hidden, outputs, false);
  }
  const stacks = [llamaStack(text, gemma3Text), imageStack(vision, 0)];
  return { kind: 'image-and-text', head, outputs, tied, stacks, parameters };
}

/** With its vision tower; the text model alone is among the descendants of Llama. */
export const gemma3Families: Readonly<Record<string, FamilyRules>> = {
  gemma3: {
    family: 'gemma3',
    classes: new Map<string, Head>([
      ['Gemma3ForConditionalGeneration', 'lm'],
      ['Gemma3ForSequenceClassification', 'sequence-classification'],
      ['Gemma3Model', 'none'],
    ]),
    table: { defaults: { tie_word_embeddings: true } },
    describe,
  },
};
