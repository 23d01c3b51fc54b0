import type { ConfigFields } from '../config/config-fields.js';
import type { ParameterList } from '../parameter-list.js';
import type { LayerGroup, Stack } from '../types.js';
import { equalLayers, noDropout } from './family.js';
import { equalHeads, plainFeedForward, tokenInput } from './plain-parts.js';

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

export function captionStack(fields: ConfigFields): Stack {
  return {
    role: 'text',
    hidden: fields.size('hidden_size'),
    input: tokenInput(fields, fields.size('vocab_size'), 'learned'),
    dropout: { ...noDropout, attention: fields.number('attention_dropout') },
    layers: layersOf(fields),
  };
}
