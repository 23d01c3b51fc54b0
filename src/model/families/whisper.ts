import type { ConfigFields } from '../config/config-fields.js';
import type { Head, Stack } from '../model.js';
import { ParameterList } from '../parameter-list.js';
import {
  addSpeechClassifier,
  equalHeads,
  equalLayers,
  type FamilyParts,
  type FamilyRules,
  plainFeedForward,
} from './family.js';

type Side = 'encoder' | 'decoder';

function addAttention(layer: ParameterList, name: string, hidden: number): void {
  layer.linear(`${name}.k_proj`, hidden, hidden, false);
  for (const part of ['v_proj', 'q_proj', 'out_proj']) {
    layer.linear(`${name}.${part}`, hidden, hidden);
  }
  layer.norm(`${name}_layer_norm`, hidden);
}

function addLayers(scope: ParameterList, fields: ConfigFields, side: Side): void {
  const hidden = fields.size('d_model');
  const inner = fields.size(`${side}_ffn_dim`);
  const layer = scope.scope('layers.*', fields.layers(`${side}_layers`));
  addAttention(layer, 'self_attn', hidden);
  if (side === 'decoder') addAttention(layer, 'encoder_attn', hidden);
  layer.linear('fc1', hidden, inner);
  layer.linear('fc2', inner, hidden);
  layer.norm('final_layer_norm', hidden);
  scope.norm('layer_norm', hidden);
}

function addEncoder(encoder: ParameterList, fields: ConfigFields): void {
  const hidden = fields.size('d_model');
  encoder.convolution('conv1', [hidden, fields.size('num_mel_bins'), 3]);
  encoder.convolution('conv2', [hidden, hidden, 3]);
  // Sinusoids, kept as a parameter that is not trained.
  const positions = fields.size('max_source_positions');
  encoder.tensor('embed_positions.weight', [positions, hidden], false);
  addLayers(encoder, fields, 'encoder');
}

function addDecoder(decoder: ParameterList, fields: ConfigFields): void {
  const hidden = fields.size('d_model');
  decoder.embedding('embed_tokens', fields.size('vocab_size'), hidden);
  decoder.embedding('embed_positions', fields.size('max_target_positions'), hidden);
  addLayers(decoder, fields, 'decoder');
}

function stackOf(fields: ConfigFields, side: Side): Stack {
  const hidden = fields.size('d_model');
  const heads = fields.size(`${side}_attention_heads`);
  const attention = equalHeads(fields, hidden, heads);
  return {
    role: side === 'encoder' ? 'speech' : 'decoder',
    hidden,
    input: side === 'encoder' ? audioInput(fields, hidden) : tokenInput(fields),
    dropout: {
      embedding: fields.number('dropout'),
      attention: fields.number('attention_dropout'),
      hidden: fields.number('dropout'),
      activation: fields.number('activation_dropout'),
      path: fields.number(`${side}_layerdrop`),
    },
    layers: equalLayers(fields.layers(`${side}_layers`), {
      hidden,
      attention,
      ...(side === 'decoder' ? { crossAttention: attention } : {}),
      feedForward: plainFeedForward(
        fields.size(`${side}_ffn_dim`),
        fields.text('activation_function'),
      ),
      parallel: false,
      norm: 'layer',
      norms: side === 'decoder' ? 3 : 2,
    }),
  };
}

function audioInput(fields: ConfigFields, hidden: number): Stack['input'] {
  return {
    kind: 'audio',
    channels: fields.size('num_mel_bins'),
    convolutions: [
      { channels: hidden, kernel: 3, stride: 1 },
      { channels: hidden, kernel: 3, stride: 2 },
    ],
    maxPositions: fields.size('max_source_positions'),
  };
}

function tokenInput(fields: ConfigFields): Stack['input'] {
  return {
    kind: 'tokens',
    vocabulary: fields.size('vocab_size'),
    maxPositions: fields.size('max_target_positions'),
    positions: 'learned',
  };
}

function describe(fields: ConfigFields, className: string, head: Head): FamilyParts {
  const hidden = fields.size('d_model');
  const vocabulary = fields.size('vocab_size');
  const tied = fields.flag('tie_word_embeddings');
  const parameters = new ParameterList();
  if (head === 'audio-classification') {
    addEncoder(parameters.scope('encoder'), fields);
    const outputs = addSpeechClassifier(
      parameters,
      fields,
      hidden,
      fields.layers('encoder_layers'),
    );
    const stacks = [stackOf(fields, 'encoder')];
    return { kind: 'speech', head, outputs, tied: false, stacks, parameters };
  }
  const body = parameters.scope(head === 'none' ? '' : 'model');
  addDecoder(body.scope('decoder'), fields);
  const stacks = [stackOf(fields, 'decoder')];
  const decoderOnly = className === 'WhisperForCausalLM';
  if (!decoderOnly) {
    addEncoder(body.scope('encoder'), fields);
    stacks.unshift(stackOf(fields, 'encoder'));
  }
  if (head === 'lm' && !tied) parameters.linear('proj_out', hidden, vocabulary, false);
  const kind = decoderOnly ? 'decoder' : 'speech-to-text';
  return { kind, head, outputs: head === 'lm' ? vocabulary : 0, tied, stacks, parameters };
}

export const whisperFamilies: Readonly<Record<string, FamilyRules>> = {
  whisper: {
    family: 'whisper',
    classes: new Map<string, Head>([
      ['WhisperForConditionalGeneration', 'lm'],
      ['WhisperForCausalLM', 'lm'],
      ['WhisperForAudioClassification', 'audio-classification'],
      ['WhisperModel', 'none'],
    ]),
    table: {
      defaults: {
        vocab_size: 51865,
        num_mel_bins: 80,
        encoder_layers: 4,
        encoder_attention_heads: 6,
        decoder_layers: 4,
        decoder_attention_heads: 6,
        decoder_ffn_dim: 1536,
        encoder_ffn_dim: 1536,
        encoder_layerdrop: 0,
        decoder_layerdrop: 0,
        activation_function: 'gelu',
        d_model: 384,
        dropout: 0,
        attention_dropout: 0,
        activation_dropout: 0,
        max_source_positions: 1500,
        max_target_positions: 448,
        use_weighted_layer_sum: false,
        classifier_proj_size: 256,
        tie_word_embeddings: true,
      },
      aliases: {
        encoder_attention_heads: ['num_attention_heads'],
        d_model: ['hidden_size'],
        encoder_layers: ['num_hidden_layers'],
      },
    },
    describe,
  },
};
