import type { Known } from '../units/known.js';

/** Model families whose parameters are counted by formula, each tensor with its shape. */
export const families = [
  'llama',
  'mistral',
  'qwen2',
  'qwen3',
  'qwen2_moe',
  'qwen3_moe',
  'mixtral',
  'gemma',
  'gemma2',
  'gemma3',
  'phi',
  'phi3',
  'gpt2',
  'gpt_neox',
  'opt',
  'bloom',
  'falcon',
  'deepseek_v2',
  'deepseek_v3',
  'bert',
  'roberta',
  'distilbert',
  't5',
  'vit',
  'swin',
  'convnext',
  'whisper',
  'wav2vec2',
  'clip',
] as const;
export type Family = (typeof families)[number];

/** The input and output of a model: they decide which batch it takes. */
export type ModelKind =
  | 'decoder'
  | 'encoder'
  | 'encoder-decoder'
  | 'vision'
  | 'speech'
  | 'speech-to-text'
  | 'image-and-text';

/** The head on top of the layers. `none`: the bare model, whose output is its hidden states. */
export type Head =
  | 'lm'
  | 'masked-lm'
  | 'pretraining'
  | 'sequence-classification'
  | 'token-classification'
  | 'question-answering'
  | 'image-classification'
  | 'masked-image'
  | 'audio-classification'
  | 'ctc'
  | 'projection'
  | 'contrastive'
  | 'none';

/** Parameters that are alike: `count` tensors of one shape, with the numbers in their name as `*`. */
export interface TensorGroup {
  readonly name: string;
  readonly shape: readonly number[];
  readonly count: number;
  readonly trainable: boolean;
}

export interface Attention {
  /** `sliding`: a token sees `window` tokens; in a vision model a square of `window` x `window`. */
  readonly reach: 'full' | 'sliding';
  readonly window?: number;
  readonly heads: number;
  readonly kvHeads: number;
  /** Elements of one head's query and key; of its value too, unless `valueHeadDim` differs. */
  readonly headDim: number;
  readonly valueHeadDim?: number;
  /** One matrix makes query, key and value together. */
  readonly fused: boolean;
  readonly bias: boolean;
  readonly queryKeyNorm: boolean;
  /** Keys and values are cached as one small vector a token (multi-head latent attention). */
  readonly latent?: {
    readonly queryRank: number | null;
    readonly keyValueRank: number;
    readonly ropeDim: number;
  };
  /** A learned bias by position is added to the scores, as in T5 and Swin. */
  readonly positionBias?: boolean;
}

export interface FeedForward {
  readonly inner: number;
  /** Two matrices up, one of which passes through the activation. */
  readonly gated: boolean;
  readonly activation: string;
  readonly bias: boolean;
  /** Present where a token passes through some of many feed-forward parts of size `inner`. */
  readonly experts?: {
    readonly count: number;
    readonly active: number;
    /** Size of the part that every token passes; 0 where there is none. */
    readonly sharedInner: number;
  };
}

/** Neighbouring layers that are alike. */
export interface LayerGroup {
  readonly count: number;
  readonly hidden: number;
  /** The mixing of tokens: attention, or in ConvNeXt a depthwise convolution of this edge. */
  readonly attention?: Attention;
  readonly convolution?: number;
  readonly crossAttention?: Attention;
  readonly feedForward: FeedForward;
  /** Attention and feed-forward read the same input, side by side. */
  readonly parallel: boolean;
  readonly norm: 'layer' | 'rms';
  /** Norms over the hidden size in one layer. */
  readonly norms: number;
  /** By how much the edge of the feature map has shrunk since the patches (Swin, ConvNeXt). */
  readonly reduction?: number;
}

export type StackInput =
  | {
      readonly kind: 'tokens';
      readonly vocabulary: number;
      readonly maxPositions: Known<number>;
      readonly positions: 'learned' | 'rotary' | 'alibi' | 'relative';
    }
  | {
      readonly kind: 'image';
      readonly channels: number;
      readonly imageSize: readonly [number, number];
      readonly patchSize: readonly [number, number];
      /** A class token and the like, beside the patches. */
      readonly extraTokens: number;
    }
  | {
      readonly kind: 'audio';
      /** Mel bins of a frame, or 1 for the raw wave. */
      readonly channels: number;
      /** The convolutions in front of the layers, first to last. */
      readonly convolutions: readonly {
        readonly channels: number;
        readonly kernel: number;
        readonly stride: number;
      }[];
      readonly maxPositions: Known<number>;
    };

/** Probabilities; 0 where the family has none. Dropout of 0 keeps no mask. */
export interface Dropout {
  readonly embedding: number;
  readonly attention: number;
  readonly hidden: number;
  readonly activation: number;
  /** Whole layers or their branches left out. */
  readonly path: number;
}

/** Layers that are passed one after another by the same tokens. A model has one, or two. */
export interface Stack {
  readonly role: 'text' | 'encoder' | 'decoder' | 'vision' | 'speech';
  readonly hidden: number;
  readonly input: StackInput;
  readonly layers: readonly LayerGroup[];
  readonly dropout: Dropout;
}

interface DescriptionParts {
  /** `model_type` or the GGUF architecture, as written. */
  readonly modelType: string;
  readonly name?: string;
  /** The type that the config gives its weights, as `bfloat16`. */
  readonly dtype?: string;
  /** Notes for the reader of the answer: assumptions, and parts not understood. */
  readonly notes: readonly string[];
}

/** The type in which attention without a fused kernel keeps a score for each pair of tokens. */
export type WrittenScores = 'own-type' | '32-bit';

/** A model of a known family: what its layers are, and every parameter with its shape. */
export interface KnownModel extends DescriptionParts {
  readonly family: Family;
  readonly kind: ModelKind;
  /** The class of transformers that is meant, as `LlamaForCausalLM`. */
  readonly className: string;
  readonly head: Head;
  /** Its family has no rules of its own: it was read as a usual decoder or encoder. */
  readonly generic?: true;
  /** Present where a generic model's attention has no fused kernel, or may have none. */
  readonly writtenScores?: WrittenScores | 'unknown';
  /** Classes of a classifier, or the vocabulary of a language head; 0 for a bare model. */
  readonly outputs: number;
  /** The output matrix is the embedding matrix. */
  readonly tied: boolean;
  /** Tied parameters count once, as they lie in memory once. */
  readonly parameters: number;
  readonly trainableParameters: number;
  readonly stacks: readonly Stack[];
  readonly tensors: readonly TensorGroup[];
}

/** Any other model: nothing is made up; what weights' headers tell is in `Model.weights`. */
export interface UnknownModel extends DescriptionParts {
  readonly family: 'unknown';
  readonly parameters: Known<number>;
}

export type ModelDescription = KnownModel | UnknownModel;

/** Tensors of one data type. */
export interface WeightsOfType {
  readonly type: string;
  readonly tensors: number;
  readonly parameters: number;
  readonly bytes: number;
}

/** Tensors that are alike, as they lie in the files. */
export interface WeightGroup {
  readonly name: string;
  readonly type: string;
  readonly shape: readonly number[];
  readonly count: number;
  readonly bytes: number;
}

/** The contents of weight files' headers. Tensor data is never read. */
export interface Weights {
  readonly format: 'safetensors' | 'gguf';
  readonly files: readonly string[];
  readonly tensors: number;
  readonly parameters: number;
  readonly bytes: number;
  readonly byType: readonly WeightsOfType[];
  readonly groups: readonly WeightGroup[];
}

export interface Model {
  readonly path: string;
  readonly description: ModelDescription;
  /** Absent where there is only a config. */
  readonly weights?: Weights;
}
