"""CLIP (ViT-B/16) from scratch on image/caption pairs with the Trainer; zero-shot recall at the end."""

import torch
from torch.utils.data import Dataset
from transformers import (
    CLIPConfig,
    CLIPModel,
    CLIPTextConfig,
    CLIPVisionConfig,
    Trainer,
    TrainingArguments,
    set_seed,
)

IMAGE_SIZE = 224
CONTEXT = 77
VOCAB = 49408
PAIRS = 1600
EVAL_PAIRS = 256
BATCH_SIZE = 96
VISION_LAYERS, TEXT_LAYERS = 12, 12
VISION_DIM, TEXT_DIM = 768, 512


class Pairs(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.colors = torch.rand(n, 3, generator=g)
        self.lengths = torch.randint(6, CONTEXT - 2, (n,), generator=g)
        self.words = torch.randint(1000, VOCAB - 2, (n, CONTEXT), generator=g)

    def __len__(self):
        return len(self.colors)

    def __getitem__(self, i):
        image = self.colors[i][:, None, None].expand(3, IMAGE_SIZE, IMAGE_SIZE) + 0.1 * torch.randn(
            3, IMAGE_SIZE, IMAGE_SIZE
        )
        n = int(self.lengths[i])
        ids = torch.full((n,), 0)
        ids[0] = VOCAB - 2
        ids[1:-1] = self.words[i, : n - 2]
        ids[-1] = VOCAB - 1
        return {"pixel_values": image, "input_ids": ids}


def collate_fn(examples):
    pixel_values = torch.stack([e["pixel_values"] for e in examples])
    longest = max(len(e["input_ids"]) for e in examples)
    input_ids = torch.zeros(len(examples), longest, dtype=torch.long)
    attention_mask = torch.zeros_like(input_ids)
    for row, e in enumerate(examples):
        n = len(e["input_ids"])
        input_ids[row, :n] = e["input_ids"]
        attention_mask[row, :n] = 1
    return {
        "pixel_values": pixel_values,
        "input_ids": input_ids,
        "attention_mask": attention_mask,
        "return_loss": True,
    }


def build():
    text = CLIPTextConfig(
        vocab_size=VOCAB,
        hidden_size=TEXT_DIM,
        intermediate_size=TEXT_DIM * 4,
        num_hidden_layers=TEXT_LAYERS,
        num_attention_heads=8,
        max_position_embeddings=CONTEXT,
        bos_token_id=VOCAB - 2,
        eos_token_id=VOCAB - 1,
    )
    vision = CLIPVisionConfig(
        hidden_size=VISION_DIM,
        intermediate_size=VISION_DIM * 4,
        num_hidden_layers=VISION_LAYERS,
        num_attention_heads=12,
        image_size=IMAGE_SIZE,
        patch_size=16,
    )
    return CLIPModel(
        CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=512)
    )


@torch.no_grad()
def recall(model, dataset, k=5, batch=64):
    model.eval()
    sims = []
    for start in range(0, len(dataset), batch):
        b = collate_fn([dataset[i] for i in range(start, min(start + batch, len(dataset)))])
        b.pop("return_loss")
        b = {key: v.to(model.device) for key, v in b.items()}
        with torch.autocast(model.device.type, dtype=torch.bfloat16):
            out = model(**b)
        sims.append((out.image_embeds.float(), out.text_embeds.float()))
    images = torch.cat([s[0] for s in sims])
    texts = torch.cat([s[1] for s in sims])
    scores = images @ texts.T
    top = scores.topk(k, dim=1).indices
    truth = torch.arange(len(dataset), device=top.device)[:, None]
    return (top == truth).any(1).float().mean().item()


def main():
    set_seed(11)
    model = build()
    print(f"{model.num_parameters() / 1e6:.0f}M parameters")
    train, val = Pairs(PAIRS, 0), Pairs(EVAL_PAIRS, 1)
    args = TrainingArguments(
        output_dir="clip_captions",
        per_device_train_batch_size=BATCH_SIZE,
        per_device_eval_batch_size=BATCH_SIZE,
        num_train_epochs=2,
        learning_rate=5e-4,
        adam_beta2=0.98,
        weight_decay=0.2,
        lr_scheduler_type="cosine",
        warmup_steps=5,
        bf16=True,
        max_grad_norm=1.0,
        remove_unused_columns=False,
        dataloader_num_workers=6,
        dataloader_drop_last=True,
        prediction_loss_only=True,
        logging_steps=5,
        eval_strategy="epoch",
        save_strategy="no",
        report_to="none",
    )
    trainer = Trainer(
        model=model, args=args, data_collator=collate_fn, train_dataset=train, eval_dataset=val
    )
    trainer.train()
    print("eval", trainer.evaluate())
    print(
        f"recall@5 image->text: {recall(model, val):.3f}, logit scale {model.logit_scale.exp().item():.2f}"
    )


if __name__ == "__main__":
    main()
