"""Small sizes that the cases of several families begin with."""

from __future__ import annotations

SMALL = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "vocab_size": 320,
}
GROUPED = {**SMALL, "num_key_value_heads": 2}


def heads(prefix, *kinds):
    return [({**GROUPED, "num_labels": 5}, prefix + kind) for kind in kinds]


GENERIC_HEADS = (
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "Model",
)

SMALL_EXPERTS = {**GROUPED, "moe_intermediate_size": 48, "shared_expert_intermediate_size": 96}
SMALL_LATENT = {
    **SMALL,
    "moe_intermediate_size": 48,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12,
    "v_head_dim": 20,
}
SMALL_GPT2 = {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 128, "vocab_size": 320}
SMALL_T5 = {
    "d_model": 64,
    "d_ff": 160,
    "d_kv": 12,
    "num_layers": 3,
    "num_heads": 4,
    "vocab_size": 320,
}
SMALL_VISION = {
    "hidden_size": 64,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}
SMALL_SWIN = {
    "embed_dim": 24,
    "depths": [1, 2, 3],
    "num_heads": [2, 3, 4],
    "window_size": 5,
    "image_size": 96,
}
SMALL_WHISPER = {
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
SMALL_WAV2VEC2 = {
    **SMALL_VISION,
    "conv_dim": [32, 48],
    "conv_kernel": [10, 3],
    "conv_stride": [5, 2],
    "num_conv_pos_embeddings": 16,
}
SMALL_TOWERS = {
    "text_config": {**SMALL, "max_position_embeddings": 40, "projection_dim": 48},
    "vision_config": {**SMALL_VISION, "image_size": 96, "patch_size": 16, "projection_dim": 48},
    "projection_dim": 48,
}
LABELS = {"id2label": {str(index): f"label {index}" for index in range(7)}}
