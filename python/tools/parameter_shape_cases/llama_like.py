"""Decoders built like Llama."""

from __future__ import annotations

from .small import GENERIC_HEADS, GROUPED, LABELS, SMALL, SMALL_EXPERTS, SMALL_VISION, heads

CASES = {
    "llama": [
        ({}, None),
        (SMALL, None),
        ({**GROUPED, "attention_bias": True, "mlp_bias": True}, None),
        ({**GROUPED, "tie_word_embeddings": True, "head_dim": 24}, None),
        ({**GROUPED, "head_dim": None, "num_key_value_heads": None}, None),
        *heads("Llama", *GENERIC_HEADS),
        ({**GROUPED, **LABELS}, "LlamaForSequenceClassification"),
    ],
    "mistral": [
        ({}, None),
        ({**SMALL, "num_key_value_heads": 1}, None),
        ({**GROUPED, "head_dim": 24, "sliding_window": None, "tie_word_embeddings": True}, None),
        *heads("Mistral", *GENERIC_HEADS),
    ],
    "qwen2": [
        ({}, None),
        (GROUPED, None),
        (
            {
                **GROUPED,
                "use_sliding_window": True,
                "max_window_layers": 2,
                "tie_word_embeddings": True,
            },
            None,
        ),
        ({**GROUPED, "head_dim": 24}, None),
        *heads("Qwen2", *GENERIC_HEADS),
    ],
    "qwen3": [
        ({}, None),
        (GROUPED, None),
        ({**GROUPED, "head_dim": 24, "attention_bias": True, "tie_word_embeddings": True}, None),
        *heads("Qwen3", *GENERIC_HEADS),
    ],
    "qwen2_moe": [
        ({}, None),
        (SMALL_EXPERTS, None),
        ({**SMALL_EXPERTS, "num_experts": 6, "decoder_sparse_step": 2, "qkv_bias": False}, None),
        ({**SMALL_EXPERTS, "mlp_only_layers": [0, 2], "tie_word_embeddings": True}, None),
        (
            {**SMALL_EXPERTS, "use_sliding_window": True, "num_labels": 4},
            "Qwen2MoeForSequenceClassification",
        ),
    ],
    "qwen3_moe": [
        ({}, None),
        (SMALL_EXPERTS, None),
        ({**SMALL_EXPERTS, "num_experts": 6, "head_dim": 24, "decoder_sparse_step": 2}, None),
        (
            {
                **SMALL_EXPERTS,
                "num_local_experts": 5,
                "mlp_only_layers": [1],
                "attention_bias": True,
            },
            None,
        ),
        (
            {**SMALL_EXPERTS, "tie_word_embeddings": True, "num_key_value_heads": 4},
            "Qwen3MoeModel",
        ),
    ],
    "mixtral": [
        ({}, None),
        ({**GROUPED, "num_local_experts": 4, "head_dim": 24}, None),
        ({**GROUPED, "num_experts": 3, "tie_word_embeddings": True, "sliding_window": 64}, None),
        *heads("Mixtral", *GENERIC_HEADS),
    ],
    "gemma": [
        ({}, None),
        (GROUPED, None),
        ({**GROUPED, "head_dim": 24, "attention_bias": True, "tie_word_embeddings": False}, None),
        *heads("Gemma", *GENERIC_HEADS[:2], "Model"),
    ],
    "gemma2": [
        ({}, None),
        (GROUPED, None),
        ({**GROUPED, "head_dim": 24, "attention_bias": True, "tie_word_embeddings": False}, None),
        *heads("Gemma2", *GENERIC_HEADS[:2], "Model"),
    ],
    "gemma3_text": [
        ({}, None),
        (GROUPED, None),
        ({**GROUPED, "head_dim": 24, "attention_bias": True, "tie_word_embeddings": False}, None),
        (
            {**GROUPED, "sliding_window_pattern": 2, "num_labels": 5},
            "Gemma3TextForSequenceClassification",
        ),
        (GROUPED, "Gemma3TextModel"),
    ],
    "gemma3": [
        ({}, None),
        ({"text_config": GROUPED}, None),
        (
            {
                "text_config": {**GROUPED, "head_dim": 24},
                "vision_config": {**SMALL_VISION, "image_size": 96, "vision_use_head": False},
            },
            None,
        ),
        (
            {
                "text_config": GROUPED,
                "vision_config": {**SMALL_VISION, "patch_size": 14},
                "tie_word_embeddings": False,
            },
            None,
        ),
        ({"text_config": GROUPED, "vision_config": SMALL_VISION}, "Gemma3Model"),
        (
            {"text_config": GROUPED, "vision_config": SMALL_VISION, "num_labels": 4},
            "Gemma3ForSequenceClassification",
        ),
    ],
    "phi": [
        ({}, None),
        (GROUPED, None),
        ({**GROUPED, "qk_layernorm": True, "tie_word_embeddings": True, "head_dim": 24}, None),
        *heads("Phi", *GENERIC_HEADS[:2], "Model"),
    ],
    "phi3": [
        ({"pad_token_id": 0}, None),
        ({**GROUPED, "pad_token_id": 0}, None),
        ({**GROUPED, "tie_word_embeddings": True, "head_dim": 24, "pad_token_id": 0}, None),
        *[
            ({**settings, "pad_token_id": 0}, name)
            for settings, name in heads("Phi3", *GENERIC_HEADS[:2], "Model")
        ],
    ],
}
