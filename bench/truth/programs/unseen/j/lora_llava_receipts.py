"""Teach a LLaVA to read receipts: LoRA on the language model, gradient checkpointing, HF Trainer.

The vision tower stays frozen; the projector is trained fully.
"""

import argparse

import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import (
    CLIPVisionConfig,
    LlamaConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    Trainer,
    TrainingArguments,
    set_seed,
)

PATCH = 14


class Receipts(Dataset):
    def __init__(self, n, opt, image_token):
        self.n, self.opt, self.image_token = n, opt, image_token
        self.patches = (opt.image // PATCH) ** 2

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        text = torch.randint(
            3, self.image_token, (self.opt.length - self.patches - 1,), generator=g
        )
        ids = torch.cat([torch.tensor([1]), torch.full((self.patches,), self.image_token), text])
        labels = ids.clone()
        labels[: self.patches + 1 + len(text) // 4] = -100
        return {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "pixel_values": torch.randn(3, self.opt.image, self.opt.image, generator=g),
            "labels": labels,
        }


def build(opt, image_token):
    vision = CLIPVisionConfig(
        image_size=opt.image,
        patch_size=PATCH,
        hidden_size=opt.vision_hidden,
        intermediate_size=4 * opt.vision_hidden,
        num_hidden_layers=opt.vision_layers,
        num_attention_heads=16,
    )
    text = LlamaConfig(
        vocab_size=opt.vocab,
        hidden_size=opt.text_hidden,
        intermediate_size=opt.text_hidden * 11 // 4,
        num_hidden_layers=opt.text_layers,
        num_attention_heads=16,
        num_key_value_heads=16,
        max_position_embeddings=4096,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=text,
        image_token_index=image_token,
        image_seq_length=(opt.image // PATCH) ** 2,
    )
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with torch.device(device):
        model = LlavaForConditionalGeneration(config)
    model = model.to(torch.bfloat16)
    model.config.use_cache = False
    return model


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--image", type=int, default=336)
    ap.add_argument("--length", type=int, default=1024)
    ap.add_argument("--vocab", type=int, default=32064)
    ap.add_argument("--text-hidden", type=int, default=2048)
    ap.add_argument("--text-layers", type=int, default=22)
    ap.add_argument("--vision-hidden", type=int, default=1024)
    ap.add_argument("--vision-layers", type=int, default=24)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--steps", type=int, default=12)
    opt = ap.parse_args()
    set_seed(40)
    image_token = opt.vocab - 64

    model = build(opt, image_token)
    lora = LoraConfig(
        r=16,
        lora_alpha=32,
        lora_dropout=0.05,
        target_modules=r".*language_model.*\.(q_proj|k_proj|v_proj|o_proj|gate_proj|up_proj|down_proj)",
        modules_to_save=["multi_modal_projector"],
    )
    model = get_peft_model(model, lora)
    model.enable_input_require_grads()
    model.print_trainable_parameters()

    args = TrainingArguments(
        output_dir="llava_receipts",
        max_steps=opt.steps,
        per_device_train_batch_size=opt.batch,
        gradient_checkpointing=True,
        gradient_checkpointing_kwargs={"use_reentrant": False},
        bf16=True,
        learning_rate=1e-4,
        warmup_steps=2,
        logging_steps=3,
        save_strategy="no",
        remove_unused_columns=False,
        report_to="none",
    )
    trainer = Trainer(model=model, args=args, train_dataset=Receipts(128, opt, image_token))
    trainer.train()


if __name__ == "__main__":
    main()
