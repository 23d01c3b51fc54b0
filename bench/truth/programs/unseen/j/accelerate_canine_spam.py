"""Spam filter that reads characters: CANINE, accelerate, bf16, accumulation, saves its state and resumes from it."""

import argparse
import logging
import shutil
import tempfile

import torch
from accelerate import Accelerator
from accelerate.logging import get_logger
from accelerate.utils import ProjectConfiguration, set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import CanineConfig, CanineForSequenceClassification

logger = get_logger(__name__)


class Messages(Dataset):
    def __init__(self, n, chars):
        g = torch.Generator().manual_seed(8)
        self.text = torch.randint(32, 1200, (n, chars), generator=g)
        self.spam = torch.randint(0, 2, (n,), generator=g)
        self.used = torch.randint(chars // 2, chars + 1, (n,), generator=g)

    def __len__(self):
        return len(self.spam)

    def __getitem__(self, i):
        mask = (torch.arange(self.text.size(1)) < self.used[i]).long()
        return {"input_ids": self.text[i] * mask, "attention_mask": mask, "labels": self.spam[i]}


def train_epoch(accelerator, model, optimizer, loader, epoch):
    model.train()
    for step, batch in enumerate(loader):
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_value_(model.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
        if step % 5 == 0:
            logger.info(f"epoch {epoch} step {step} loss {loss.item():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--chars", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--examples", type=int, default=240)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)

    folder = tempfile.mkdtemp()
    accelerator = Accelerator(
        mixed_precision="bf16",
        gradient_accumulation_steps=2,
        project_config=ProjectConfiguration(
            project_dir=folder, automatic_checkpoint_naming=True, total_limit=1
        ),
    )
    set_seed(17)
    model = CanineForSequenceClassification(
        CanineConfig(
            hidden_size=args.width,
            num_hidden_layers=args.layers,
            intermediate_size=4 * args.width,
            max_position_embeddings=max(args.chars, 1024),
            num_labels=2,
        )
    )
    optimizer = torch.optim.RAdam(model.parameters(), lr=5e-5)
    loader = DataLoader(Messages(args.examples, args.chars), batch_size=args.batch, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)

    train_epoch(accelerator, model, optimizer, loader, 0)
    accelerator.save_state()
    # the cluster kills jobs often, so make sure that a restart works
    accelerator.load_state(f"{folder}/checkpoints/checkpoint_0")
    train_epoch(accelerator, model, optimizer, loader, 1)
    accelerator.wait_for_everyone()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
