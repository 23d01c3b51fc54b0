"""Decoders of other designs."""

from __future__ import annotations

from .small import GENERIC_HEADS, SMALL, SMALL_GPT2, SMALL_LATENT

CASES = {
    "gpt2": [
        ({}, None),
        (SMALL_GPT2, None),
        ({**SMALL_GPT2, "n_inner": 100, "tie_word_embeddings": False}, None),
        ({**SMALL_GPT2, "add_cross_attention": True}, None),
        (
            {
                "hidden_size": 96,
                "num_hidden_layers": 2,
                "num_attention_heads": 3,
                "max_position_embeddings": 50,
            },
            None,
        ),
        ({**SMALL_GPT2, "num_labels": 5}, "GPT2ForSequenceClassification"),
        ({**SMALL_GPT2, "num_labels": 5}, "GPT2ForTokenClassification"),
        (SMALL_GPT2, "GPT2ForQuestionAnswering"),
        (SMALL_GPT2, "GPT2Model"),
    ],
    "gpt_neox": [
        ({}, None),
        (SMALL, None),
        (
            {
                **SMALL,
                "attention_bias": False,
                "tie_word_embeddings": True,
                "use_parallel_residual": False,
            },
            None,
        ),
        *[({**SMALL, "num_labels": 5}, "GPTNeoX" + kind) for kind in GENERIC_HEADS],
    ],
    "opt": [
        ({}, None),
        (
            {**SMALL, "ffn_dim": 200, "word_embed_proj_dim": 32, "do_layer_norm_before": False},
            None,
        ),
        ({**SMALL, "enable_bias": False, "tie_word_embeddings": False}, None),
        ({**SMALL, "layer_norm_elementwise_affine": False, "max_position_embeddings": 100}, None),
        ({**SMALL, "_remove_final_layer_norm": True}, None),
        ({**SMALL, "num_labels": 5}, "OPTForSequenceClassification"),
        ({**SMALL, "word_embed_proj_dim": 32}, "OPTForQuestionAnswering"),
        (SMALL, "OPTModel"),
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
            for kind in GENERIC_HEADS
        ],
    ],
    "falcon": [
        ({}, None),
        (
            {**SMALL, "multi_query": False, "bias": True, "parallel_attn": False, "alibi": True},
            None,
        ),
        (
            {**SMALL, "new_decoder_architecture": True, "num_kv_heads": 2, "ffn_hidden_size": 100},
            None,
        ),
        (
            {
                **SMALL,
                "new_decoder_architecture": True,
                "num_kv_heads": 2,
                "num_ln_in_parallel_attn": 1,
            },
            None,
        ),
        ({**SMALL, "num_ln_in_parallel_attn": 2, "tie_word_embeddings": False}, None),
        *[({**SMALL, "num_labels": 5}, "Falcon" + kind) for kind in GENERIC_HEADS],
    ],
    "deepseek_v2": [
        ({}, None),
        (SMALL_LATENT, None),
        (
            {
                **SMALL_LATENT,
                "q_lora_rank": None,
                "first_k_dense_replace": 1,
                "attention_bias": True,
                "mlp_bias": True,
            },
            None,
        ),
        (
            {
                **SMALL_LATENT,
                "q_lora_rank": 24,
                "n_shared_experts": 3,
                "tie_word_embeddings": True,
            },
            None,
        ),
        ({**SMALL_LATENT, "num_labels": 5}, "DeepseekV2ForSequenceClassification"),
        (SMALL_LATENT, "DeepseekV2Model"),
    ],
    "deepseek_v3": [
        ({}, None),
        ({**SMALL_LATENT, "first_k_dense_replace": 1}, None),
        (
            {
                **SMALL_LATENT,
                "q_lora_rank": None,
                "attention_bias": True,
                "first_k_dense_replace": 0,
            },
            None,
        ),
        (
            {
                **SMALL_LATENT,
                "q_lora_rank": 24,
                "n_shared_experts": 3,
                "tie_word_embeddings": True,
                "first_k_dense_replace": 2,
            },
            None,
        ),
        ({**SMALL_LATENT, "num_labels": 5}, "DeepseekV3ForTokenClassification"),
        (SMALL_LATENT, "DeepseekV3Model"),
    ],
}
