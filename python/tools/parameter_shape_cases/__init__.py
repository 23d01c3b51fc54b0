"""Configs that reach every branch a family takes when it builds its parameters.

A case is (settings, class name or None). None stands for the class the family usually trains with:
its config then names no architecture, as many published ones do.
"""

from __future__ import annotations

from . import decoders, encoders, llama_like, vision_and_audio

CASES = {
    **llama_like.CASES,
    **decoders.CASES,
    **encoders.CASES,
    **vision_and_audio.CASES,
}

# The class a family usually trains with; transformers has no such table.
USUAL_CLASS = {
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "gemma3": "Gemma3ForConditionalGeneration",
    "phi": "PhiForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "gpt_neox": "GPTNeoXForCausalLM",
    "opt": "OPTForCausalLM",
    "bloom": "BloomForCausalLM",
    "falcon": "FalconForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "bert": "BertForMaskedLM",
    "roberta": "RobertaForMaskedLM",
    "distilbert": "DistilBertForMaskedLM",
    "t5": "T5ForConditionalGeneration",
    "vit": "ViTForImageClassification",
    "swin": "SwinForImageClassification",
    "convnext": "ConvNextForImageClassification",
    "whisper": "WhisperForConditionalGeneration",
    "wav2vec2": "Wav2Vec2ForCTC",
    "clip": "CLIPModel",
    "clip_text_model": "CLIPTextModel",
    "clip_vision_model": "CLIPVisionModel",
}
