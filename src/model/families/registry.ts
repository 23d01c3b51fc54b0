import { bertFamilies } from './bert.js';
import { bloomAndFalcon } from './bloom-falcon.js';
import { clipFamilies } from './clip.js';
import { convnextFamilies } from './convnext.js';
import { deepseekFamilies } from './deepseek.js';
import { distilbertFamilies } from './distilbert.js';
import type { FamilyRules } from './family.js';
import { gemma3Families } from './gemma3.js';
import { gptNeoxFamilies } from './gpt-neox.js';
import { gpt2Families } from './gpt2.js';
import { llamaFamilies } from './llama-families.js';
import { optFamilies } from './opt.js';
import { phiFamilies } from './phi.js';
import { swinFamilies } from './swin.js';
import { t5Families } from './t5.js';
import { vitFamilies } from './vit.js';
import { wav2vec2Families } from './wav2vec2.js';
import { whisperFamilies } from './whisper.js';

/** Every `model_type` that is understood, with how to read it. */
export const familyRules: ReadonlyMap<string, FamilyRules> = new Map(
  [
    llamaFamilies,
    gemma3Families,
    phiFamilies,
    gpt2Families,
    gptNeoxFamilies,
    optFamilies,
    bloomAndFalcon,
    deepseekFamilies,
    bertFamilies,
    distilbertFamilies,
    t5Families,
    vitFamilies,
    swinFamilies,
    convnextFamilies,
    whisperFamilies,
    wav2vec2Families,
    clipFamilies,
  ].flatMap((families) => Object.entries(families)),
);
