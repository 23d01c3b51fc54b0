import type { Family } from '../../../model/model.js';
import { bert } from './bert.js';
import { bloom } from './bloom.js';
import { clip } from './clip.js';
import type { Build } from './context.js';
import { convnext } from './convnext.js';
import { deepseek } from './deepseek.js';
import { falcon } from './falcon.js';
import { gpt2 } from './gpt2.js';
import { llama } from './llama.js';
import { opt } from './opt.js';
import { gptNeox, phi } from './side-by-side.js';
import { swin } from './swin.js';
import { t5 } from './t5.js';
import { vit } from './vit.js';
import { wav2vec2 } from './wav2vec2.js';
import { whisper } from './whisper.js';

/** How each family is built and run. */
export const familyBuilds: Readonly<Record<Family, Build>> = {
  llama,
  mistral: llama,
  qwen2: llama,
  qwen3: llama,
  qwen2_moe: llama,
  qwen3_moe: llama,
  mixtral: llama,
  gemma: llama,
  gemma2: llama,
  gemma3: llama,
  phi,
  phi3: llama,
  gpt2,
  gpt_neox: gptNeox,
  opt,
  bloom,
  falcon,
  deepseek_v2: deepseek,
  deepseek_v3: deepseek,
  bert,
  roberta: bert,
  distilbert: bert,
  t5,
  vit,
  swin,
  convnext,
  whisper,
  wav2vec2,
  clip,
};
