"""A chat about pictures: LLaVA of transformers, its image tower frozen, text after the image's tokens."""

import torch
from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig, LlavaForConditionalGeneration


def workload(batch=6, words=320, image=224, patch=16, vocabulary=32064):
    config = LlavaConfig(
        vision_config=CLIPVisionConfig(
            hidden_size=640,
            intermediate_size=2560,
            num_hidden_layers=12,
            num_attention_heads=10,
            image_size=image,
            patch_size=patch,
        ),
        text_config=LlamaConfig(
            vocab_size=vocabulary,
            hidden_size=1024,
            intermediate_size=2816,
            num_hidden_layers=14,
            num_attention_heads=16,
            num_key_value_heads=4,
        ),
        image_token_index=32000,
        vision_feature_layer=-2,
        vision_feature_select_strategy="default",
    )
    model = LlavaForConditionalGeneration(config)
    model.config.use_cache = False
    model.model.vision_tower.requires_grad_(False)
    tokens = (image // patch) ** 2

    def make():
        pictures = torch.full((batch, tokens), config.image_token_index)
        ids = torch.cat([pictures, torch.randint(0, 32000, (batch, words))], dim=1)
        labels = torch.cat([torch.full((batch, tokens), -100), ids[:, tokens:]], dim=1)
        return ids, torch.randn(batch, 3, image, image), labels

    def loss(model, given):
        ids, pictures, labels = given
        return model(input_ids=ids, pixel_values=pictures, labels=labels).loss

    return {"model": model, "batch": make, "loss": loss}
