"""Models of images, sound, and text beside images."""

from __future__ import annotations

from .small import (
    LABELS,
    SMALL,
    SMALL_SWIN,
    SMALL_TOWERS,
    SMALL_VISION,
    SMALL_WAV2VEC2,
    SMALL_WHISPER,
)

CASES = {
    "vit": [
        ({}, None),
        (
            {
                **SMALL_VISION,
                "image_size": 96,
                "patch_size": 8,
                "num_channels": 1,
                "qkv_bias": False,
                "num_labels": 10,
            },
            None,
        ),
        ({**SMALL_VISION, "image_size": [64, 96], "patch_size": [8, 16], **LABELS}, None),
        ({**SMALL_VISION, "pooler_output_size": 40}, "ViTModel"),
        ({**SMALL_VISION, "encoder_stride": 16}, "ViTForMaskedImageModeling"),
    ],
    "swin": [
        ({}, None),
        ({**SMALL_SWIN, "qkv_bias": False, "mlp_ratio": 2.5, "num_labels": 10}, None),
        ({**SMALL_SWIN, "use_absolute_embeddings": True, "num_channels": 1, **LABELS}, None),
        (SMALL_SWIN, "SwinModel"),
        (SMALL_SWIN, "SwinForMaskedImageModeling"),
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
        (SMALL_WHISPER, None),
        (
            {
                **SMALL_WHISPER,
                "max_source_positions": 100,
                "max_target_positions": 60,
                "tie_word_embeddings": False,
            },
            None,
        ),
        (
            {**SMALL_WHISPER, "num_labels": 5, "use_weighted_layer_sum": True},
            "WhisperForAudioClassification",
        ),
        (SMALL_WHISPER, "WhisperForCausalLM"),
        (SMALL_WHISPER, "WhisperModel"),
    ],
    "wav2vec2": [
        ({}, None),
        (
            {
                **SMALL_WAV2VEC2,
                "feat_extract_norm": "layer",
                "conv_bias": True,
                "do_stable_layer_norm": True,
                "vocab_size": 60,
            },
            None,
        ),
        ({**SMALL_WAV2VEC2, "mask_time_prob": 0.0, "num_conv_pos_embedding_groups": 8}, None),
        (
            {
                **SMALL_WAV2VEC2,
                "add_adapter": True,
                "output_hidden_size": 48,
                "num_adapter_layers": 2,
            },
            None,
        ),
        (
            {**SMALL_WAV2VEC2, "adapter_attn_dim": 16, "do_stable_layer_norm": True},
            "Wav2Vec2Model",
        ),
        (SMALL_WAV2VEC2, "Wav2Vec2ForPreTraining"),
        (
            {**SMALL_WAV2VEC2, "num_labels": 5, "use_weighted_layer_sum": True},
            "Wav2Vec2ForSequenceClassification",
        ),
        ({**SMALL_WAV2VEC2, "num_labels": 5}, "Wav2Vec2ForAudioFrameClassification"),
    ],
    "clip": [
        ({}, None),
        (SMALL_TOWERS, None),
        ({**SMALL_TOWERS, "num_labels": 10}, "CLIPForImageClassification"),
    ],
    "clip_text_model": [
        ({}, None),
        ({**SMALL, "projection_dim": 48}, "CLIPTextModelWithProjection"),
    ],
    "clip_vision_model": [
        ({}, None),
        (
            {**SMALL_VISION, "projection_dim": 48, "image_size": 100},
            "CLIPVisionModelWithProjection",
        ),
    ],
}
