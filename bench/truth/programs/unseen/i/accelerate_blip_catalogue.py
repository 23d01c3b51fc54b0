"""Captioning of a product catalogue with BLIP-base: fp16, frozen vision tower for a start, captions each epoch."""

import logging

import torch
from accelerate import Accelerator
from accelerate.logging import get_logger
from torch.utils.data import DataLoader, Dataset
from transformers import BlipConfig, BlipForConditionalGeneration

logging.basicConfig(level=logging.INFO)
logger = get_logger(__name__)

IMAGE = 384
WORDS = 40
VOCAB = 30524
TRAIN, VALID = 128, 24
BATCH, CAPTION_BATCH = 16, 24
EPOCHS = 2
TEXT = dict(
    vocab_size=VOCAB,
    hidden_size=768,
    encoder_hidden_size=768,
    intermediate_size=3072,
    num_hidden_layers=12,
    num_attention_heads=12,
    max_position_embeddings=512,
    bos_token_id=30522,
    pad_token_id=0,
    sep_token_id=102,
    eos_token_id=2,
)
VISION = dict(
    hidden_size=768,
    intermediate_size=3072,
    num_hidden_layers=12,
    num_attention_heads=12,
    image_size=IMAGE,
    patch_size=16,
)


class Catalogue(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.images = torch.randint(0, 256, (n, 3, IMAGE, IMAGE), dtype=torch.uint8, generator=g)
        self.text = torch.randint(1000, 30000, (n, WORDS), generator=g)
        self.text[:, 0], self.text[:, -1] = 30522, 102

    def __len__(self):
        return len(self.text)

    def __getitem__(self, i):
        return {
            "pixel_values": self.images[i].float() / 127.5 - 1,
            "input_ids": self.text[i],
            "attention_mask": torch.ones(WORDS, dtype=torch.long),
            "labels": self.text[i],
        }


def main():
    accelerator = Accelerator(mixed_precision="fp16")
    model = BlipForConditionalGeneration(BlipConfig(text_config=TEXT, vision_config=VISION))
    for p in model.vision_model.parameters():
        p.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    train = DataLoader(Catalogue(TRAIN, 0), batch_size=BATCH, shuffle=True, num_workers=2)
    valid = DataLoader(Catalogue(VALID, 1), batch_size=CAPTION_BATCH)
    model, optimizer, train, valid = accelerator.prepare(model, optimizer, train, valid)

    for epoch in range(EPOCHS):
        if epoch == 1:
            # second epoch: the upper half of the tower is thawed
            tower = accelerator.unwrap_model(model).vision_model.encoder.layers
            for block in tower[len(tower) // 2 :]:
                block.requires_grad_(True)
        model.train()
        for step, batch in enumerate(train):
            out = model(**batch)
            accelerator.backward(out.loss)
            accelerator.clip_grad_norm_([p for p in model.parameters() if p.grad is not None], 1.0)
            optimizer.step()
            optimizer.zero_grad()
            if step % 4 == 0:
                logger.info(f"epoch {epoch} step {step} loss {out.loss.item():.3f}")

        model.eval()
        hits = total = 0
        for batch in valid:
            with torch.no_grad(), accelerator.autocast():
                ids = accelerator.unwrap_model(model).generate(
                    pixel_values=batch["pixel_values"], max_new_tokens=20, num_beams=3
                )
            ids = accelerator.pad_across_processes(ids, dim=1, pad_index=0)
            ids, refs = accelerator.gather_for_metrics((ids, batch["input_ids"]))
            for h, r in zip(ids.tolist(), refs.tolist()):
                hits += len(set(h) & set(r))
                total += len(set(r))
        logger.info(f"epoch {epoch} unigram recall {hits / total:.4f}")
    accelerator.unwrap_model(model).save_pretrained(
        "blip_catalogue", save_function=accelerator.save
    )


if __name__ == "__main__":
    main()
