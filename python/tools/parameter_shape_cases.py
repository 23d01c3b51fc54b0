"""Configs that reach every branch a family takes when it builds its parameters.

A case is (settings, class name or None). None stands for the class the family usually trains with:
its config then names no architecture, as many published ones do.
"""

from __future__ import annotations

_SMALL = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "vocab_size": 320,
}
_GROUPED = {**_SMALL, "num_key_value_heads": 2}


def _heads(prefix, *kinds):
    return [({**_GROUPED, "num_labels": 5}, prefix + kind) for kind in kinds]


_GENERIC_HEADS = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "Model",
)

_SMALL_EXPERTS = {**_GROUPED, "moe_intermediate_size": 48, "shared_expert_intermediate_size": 96}
_SMALL_LATENT = {
    **_SMALL,
    "moe_intermediate_size": 48,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12,
    "v_head_dim": 20,
}
_SMALL_GPT2 = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128, "vocab_size": 320}
_SMALL_T5 = {
    "d_model": 64,
    "d_ff": 160,
    "d_kv": 12,
    "num_layers": 3,
    "num_heads": 4,
    "vocab_size": 320,
}
_SMALL_VISION = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}
_SMALL_SWIN = {
    "embed_dim": 24,
    "depths": [1, 2, 3],
    "num_heads": [2, 3, 4],
    "window_size": 5,
    "image_size": 96,
}
_SMALL_WHISPER = {
    "d_model": 64,
    "encoder_layers": 3,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 160,
    "decoder_ffn_dim": 128,
    "vocab_size": 320,
    "pad_token_id": 0,
    "num_mel_bins": 128,
}
_SMALL_WAV2VEC2 = {
    **_SMALL_VISION,
    "conv_dim": [32, 48],
    "conv_kernel": [10, 3],
    "conv_stride": [5, 2],
    "num_conv_pos_embeddings": 16,
}
_SMALL_TOWERS = {
    "text_config": {**_SMALL, "max_position_embeddings": 40, "projection_dim": 48},
    "vision_config": {**_SMALL_VISION, "image_size": 96, "patch_size": 16, "projection_dim": 48},
    "projection_dim": 48,
}
_LABELS = {"id2label": {str(index): f"label {index}" for index in range(7)}}

CASES = {
    "llama": [
        ({}, None),
        (_SMALL, None),
        ({**_GROUPED, "attention_bias": True, "mlp_bias": True}, None),
        ({**_GROUPED, "tie_word_embeddings": True, "head_dim": 24}, None),
        ({**_GROUPED, "head_dim": None, "num_key_value_heads": None}, None),
        *_heads("Llama", *_GENERIC_HEADS),
        ({**_GROUPED, **_LABELS}, "LlamaForSequenceClassification"),
    ],
    "mistral": [
        ({}, None),
        ({**_SMALL, "num_key_value_heads": 1}, None),
        ({**_GROUPED, "head_dim": 24, "sliding_window": None, "tie_word_embeddings": True}, None),
        *_heads("Mistral", *_GENERIC_HEADS),
    ],
    "qwen2": [
        ({}, None),
        (_GROUPED, None),
        (
            {
                **_GROUPED,
                "use_sliding_window": True,
                "max_window_layers": 2,
                "tie_word_embeddings": True,
            },
            None,
        ),
        ({**_GROUPED, "head_dim": 24}, None),
        *_heads("Qwen2", *_GENERIC_HEADS),
    ],
    "qwen3": [
        ({}, None),
        (_GROUPED, None),
        ({**_GROUPED, "head_dim": 24, "attention_bias": True, "tie_word_embeddings": True}, None),
        *_heads("Qwen3", *_GENERIC_HEADS),
    ],
    "qwen2_moe": [
        ({}, None),
        (_SMALL_EXPERTS, None),
        ({**_SMALL_EXPERTS, "num_experts": 6, "decoder_sparse_step": 2, "qkv_bias": False}, None),
        ({**_SMALL_EXPERTS, "mlp_only_layers": [0, 2], "tie_word_embeddings": True}, None),
        (
            {**_SMALL_EXPERTS, "use_sliding_window": True, "num_labels": 4},
            "Qwen2MoeForSequenceClassification",
        ),
    ],
    "qwen3_moe": [
        ({}, None),
        (_SMALL_EXPERTS, None),
        ({**_SMALL_EXPERTS, "num_experts": 6, "head_dim": 24, "decoder_sparse_step": 2}, None),
        (
            {
                **_SMALL_EXPERTS,
                "num_local_experts": 5,
                "mlp_only_layers": [1],
                "attention_bias": True,
            },
            None,
        ),
        (
            {**_SMALL_EXPERTS, "tie_word_embeddings": True, "num_key_value_heads": 4},
            "Qwen3MoeModel",
        ),
    ],
    "mixtral": [
        ({}, None),
        ({**_GROUPED, "num_local_experts": 4, "head_dim": 24}, None),
        ({**_GROUPED, "num_experts": 3, "tie_word_embeddings": True, "sliding_window": 64}, None),
        *_heads("Mixtral", *_GENERIC_HEADS),
    ],
    "gemma": [
        ({}, None),
        (_GROUPED, None),
        ({**_GROUPED, "head_dim": 24, "attention_bias": True, "tie_word_embeddings": False}, None),
        *_heads("Gemma", *_GENERIC_HEADS[:2], "Model"),
    ],
    "gemma2": [
        ({}, None),
        (_GROUPED, None),
        ({**_GROUPED, "head_dim": 24, "attention_bias": True, "tie_word_embeddings": False}, None),
        *_heads("Gemma2", *_GENERIC_HEADS[:2], "Model"),
    ],
    "gemma3_text": [
        ({}, None),
        (_GROUPED, None),
        ({**_GROUPED, "head_dim": 24, "attention_bias": True, "tie_word_embeddings": False}, None),
        (
            {**_GROUPED, "sliding_window_pattern": 2, "num_labels": 5},
            "Gemma3TextForSequenceClassification",
        ),
        (_GROUPED, "Gemma3TextModel"),
    ],
    "gemma3": [
        ({}, None),
        ({"text_config": _GROUPED}, None),
        (
            {
                "text_config": {**_GROUPED, "head_dim": 24},
                "vision_config": {**_SMALL_VISION, "image_size": 96, "vision_use_head": False},
            },
            None,
        ),
        (
            {
                "text_config": _GROUPED,
                "vision_config": {**_SMALL_VISION, "patch_size": 14},
                "tie_word_embeddings": False,
            },
            None,
        ),
        ({"text_config": _GROUPED, "vision_config": _SMALL_VISION}, "Gemma3Model"),
        (
            {"text_config": _GROUPED, "vision_config": _SMALL_VISION, "num_labels": 4},
            "Gemma3ForSequenceClassification",
        ),
    ],
    "phi": [
        ({}, None),
        (_GROUPED, None),
        ({**_GROUPED, "qk_layernorm": True, "tie_word_embeddings": True, "head_dim": 24}, None),
        *_heads("Phi", *_GENERIC_HEADS[:2], "Model"),
    ],
    "phi3": [
        ({"pad_token_id": 0}, None),
        ({**_GROUPED, "pad_token_id": 0}, None),
        ({**_GROUPED, "tie_word_embeddings": True, "head_dim": 24, "pad_token_id": 0}, None),
        *[
            ({**settings, "pad_token_id": 0}, name)
            for settings, name in _heads("Phi3", *_GENERIC_HEADS[:2], "Model")
        ],
    ],
    "gpt2": [
        ({}, None),
        (_SMALL_GPT2, None),
        ({**_SMALL_GPT2, "n_inner": 100, "tie_word_embeddings": False}, None),
        ({**_SMALL_GPT2, "add_cross_attention": True}, None),
        (
            {
                "hidden_size": 96,
                "num_hidden_layers": 2,
                "num_attention_heads": 3,
                "max_position_embeddings": 50,
            },
            None,
        ),
        ({**_SMALL_GPT2, "num_labels": 5}, "GPT2ForSequenceClassification"),
        ({**_SMALL_GPT2, "num_labels": 5}, "GPT2ForTokenClassification"),
        (_SMALL_GPT2, "GPT2ForQuestionAnswering"),
        (_SMALL_GPT2, "GPT2Model"),
    ],
    "gpt_neox": [
        ({}, None),
        (_SMALL, None),
        (
            {
                **_SMALL,
                "attention_bias": False,
                "tie_word_embeddings": True,
                "use_parallel_residual": False,
            },
            None,
        ),
        *[({**_SMALL, "num_labels": 5}, "GPTNeoX" + kind) for kind in _GENERIC_HEADS],
    ],
    "opt": [
        ({}, None),
        (
            {**_SMALL, "ffn_dim": 200, "word_embed_proj_dim": 32, "do_layer_norm_before": False},
            None,
        ),
        ({**_SMALL, "enable_bias": False, "tie_word_embeddings": False}, None),
        ({**_SMALL, "layer_norm_elementwise_affine": False, "max_position_embeddings": 100}, None),
        ({**_SMALL, "_remove_final_layer_norm": True}, None),
        ({**_SMALL, "num_labels": 5}, "OPTForSequenceClassification"),
        ({**_SMALL, "word_embed_proj_dim": 32}, "OPTForQuestionAnswering"),
        (_SMALL, "OPTModel"),
    ],
    "bloom": [
        ({}, None),
        ({"hidden_size": 96, "n_layer": 3, "n_head": 6, "vocab_size": 320}, None),
        (
            {
                "n_embed": 48,
                "n_layer": 3,
                "num_hidden_layers": 4,
                "num_attention_heads": 2,
                "tie_word_embeddings": False,
            },
            None,
        ),
        *[
            ({"n_layer": 2, "vocab_size": 320, "num_labels": 5}, "Bloom" + kind)
            for kind in _GENERIC_HEADS
        ],
    ],
    "falcon": [
        ({}, None),
        (
            {**_SMALL, "multi_query": False, "bias": True, "parallel_attn": False, "alibi": True},
            None,
        ),
        (
            {**_SMALL, "new_decoder_architecture": True, "num_kv_heads": 2, "ffn_hidden_size": 100},
            None,
        ),
        (
            {
                **_SMALL,
                "new_decoder_architecture": True,
                "num_kv_heads": 2,
                "num_ln_in_parallel_attn": 1,
            },
            None,
        ),
        ({**_SMALL, "num_ln_in_parallel_attn": 2, "tie_word_embeddings": False}, None),
        *[({**_SMALL, "num_labels": 5}, "Falcon" + kind) for kind in _GENERIC_HEADS],
    ],
    "deepseek_v2": [
        ({}, None),
        (_SMALL_LATENT, None),
        (
            {
                **_SMALL_LATENT,
                "q_lora_rank": None,
                "first_k_dense_replace": 1,
                "attention_bias": True,
                "mlp_bias": True,
            },
            None,
        ),
        (
            {
                **_SMALL_LATENT,
                "q_lora_rank": 24,
                "n_shared_experts": 3,
                "tie_word_embeddings": True,
            },
            None,
        ),
        ({**_SMALL_LATENT, "num_labels": 5}, "DeepseekV2ForSequenceClassification"),
        (_SMALL_LATENT, "DeepseekV2Model"),
    ],
    "deepseek_v3": [
        ({}, None),
        ({**_SMALL_LATENT, "first_k_dense_replace": 1}, None),
        (
            {
                **_SMALL_LATENT,
                "q_lora_rank": None,
                "attention_bias": True,
                "first_k_dense_replace": 0,
            },
            None,
        ),
        (
            {
                **_SMALL_LATENT,
                "q_lora_rank": 24,
                "n_shared_experts": 3,
                "tie_word_embeddings": True,
                "first_k_dense_replace": 2,
            },
            None,
        ),
        ({**_SMALL_LATENT, "num_labels": 5}, "DeepseekV3ForTokenClassification"),
        (_SMALL_LATENT, "DeepseekV3Model"),
    ],
    "bert": [
        ({}, None),
        ({**_SMALL, "max_position_embeddings": 100, "type_vocab_size": 3}, None),
        ({**_SMALL, "tie_word_embeddings": False}, None),
        ({**_SMALL, "is_decoder": True, "add_cross_attention": True}, "BertLMHeadModel"),
        *[
            ({**_SMALL, "num_labels": 5}, "Bert" + kind)
            for kind in (
                *_GENERIC_HEADS,
                "ForPreTraining",
                "ForNextSentencePrediction",
                "ForMultipleChoice",
            )
        ],
    ],
    "roberta": [
        ({}, None),
        ({**_SMALL, "max_position_embeddings": 102, "type_vocab_size": 1}, None),
        ({**_SMALL, "tie_word_embeddings": False}, None),
        ({**_SMALL, "is_decoder": True}, "RobertaForCausalLM"),
        *[
            ({**_SMALL, "num_labels": 5}, "Roberta" + kind)
            for kind in (*_GENERIC_HEADS, "ForMultipleChoice")
        ],
    ],
    "distilbert": [
        ({}, None),
        (
            {
                "dim": 64,
                "hidden_dim": 160,
                "n_layers": 3,
                "n_heads": 4,
                "vocab_size": 320,
                "sinusoidal_pos_embds": True,
            },
            None,
        ),
        (
            {
                "hidden_size": 96,
                "num_hidden_layers": 2,
                "num_attention_heads": 3,
                "tie_word_embeddings": False,
            },
            None,
        ),
        ({"n_layers": 2}, "DistilBertForQuestionAnswering"),
        *[
            ({"n_layers": 2, "num_labels": 5}, "DistilBert" + kind)
            for kind in (*_GENERIC_HEADS[:2], "Model", "ForMultipleChoice")
        ],
    ],
    "t5": [
        ({}, None),
        (_SMALL_T5, None),
        (
            {
                **_SMALL_T5,
                "feed_forward_proj": "gated-gelu",
                "num_decoder_layers": 2,
                "tie_word_embeddings": False,
            },
            None,
        ),
        ({**_SMALL_T5, "is_gated_act": True, "dense_act_fn": "gelu"}, None),
        ({**_SMALL_T5, "relative_attention_num_buckets": 16}, "T5EncoderModel"),
        (_SMALL_T5, "T5Model"),
    ],
    "vit": [
        ({}, None),
        (
            {
                **_SMALL_VISION,
                "image_size": 96,
                "patch_size": 8,
                "num_channels": 1,
                "qkv_bias": False,
                "num_labels": 10,
            },
            None,
        ),
        ({**_SMALL_VISION, "image_size": [64, 96], "patch_size": [8, 16], **_LABELS}, None),
        ({**_SMALL_VISION, "pooler_output_size": 40}, "ViTModel"),
        ({**_SMALL_VISION, "encoder_stride": 16}, "ViTForMaskedImageModeling"),
    ],
    "swin": [
        ({}, None),
        ({**_SMALL_SWIN, "qkv_bias": False, "mlp_ratio": 2.5, "num_labels": 10}, None),
        ({**_SMALL_SWIN, "use_absolute_embeddings": True, "num_channels": 1, **_LABELS}, None),
        (_SMALL_SWIN, "SwinModel"),
        (_SMALL_SWIN, "SwinForMaskedImageModeling"),
    ],
    "convnext": [
        ({}, None),
        (
            {"hidden_sizes": [16, 32, 48], "depths": [1, 2, 3], "num_stages": 3, "num_labels": 10},
            None,
        ),
        (
            {
                "hidden_sizes": [16, 32],
                "depths": [2, 2],
                "num_stages": 2,
                "patch_size": 2,
                "layer_scale_init_value": 0.0,
                "num_channels": 1,
            },
            None,
        ),
        ({"depths": [1, 1, 1, 1]}, "ConvNextModel"),
    ],
    "whisper": [
        ({}, None),
        (_SMALL_WHISPER, None),
        (
            {
                **_SMALL_WHISPER,
                "max_source_positions": 100,
                "max_target_positions": 60,
                "tie_word_embeddings": False,
            },
            None,
        ),
        (
            {**_SMALL_WHISPER, "num_labels": 5, "use_weighted_layer_sum": True},
            "WhisperForAudioClassification",
        ),
        (_SMALL_WHISPER, "WhisperForCausalLM"),
        (_SMALL_WHISPER, "WhisperModel"),
    ],
    "wav2vec2": [
        ({}, None),
        (
            {
                **_SMALL_WAV2VEC2,
                "feat_extract_norm": "layer",
                "conv_bias": True,
                "do_stable_layer_norm": True,
                "vocab_size": 60,
            },
            None,
        ),
        ({**_SMALL_WAV2VEC2, "mask_time_prob": 0.0, "num_conv_pos_embedding_groups": 8}, None),
        (
            {
                **_SMALL_WAV2VEC2,
                "add_adapter": True,
                "output_hidden_size": 48,
                "num_adapter_layers": 2,
            },
            None,
        ),
        (
            {**_SMALL_WAV2VEC2, "adapter_attn_dim": 16, "do_stable_layer_norm": True},
            "Wav2Vec2Model",
        ),
        (_SMALL_WAV2VEC2, "Wav2Vec2ForPreTraining"),
        (
            {**_SMALL_WAV2VEC2, "num_labels": 5, "use_weighted_layer_sum": True},
            "Wav2Vec2ForSequenceClassification",
        ),
        ({**_SMALL_WAV2VEC2, "num_labels": 5}, "Wav2Vec2ForAudioFrameClassification"),
    ],
    "clip": [
        ({}, None),
        (_SMALL_TOWERS, None),
        ({**_SMALL_TOWERS, "num_labels": 10}, "CLIPForImageClassification"),
    ],
    "clip_text_model": [
        ({}, None),
        ({**_SMALL, "projection_dim": 48}, "CLIPTextModelWithProjection"),
    ],
    "clip_vision_model": [
        ({}, None),
        (
            {**_SMALL_VISION, "projection_dim": 48, "image_size": 100},
            "CLIPVisionModelWithProjection",
        ),
    ],
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
