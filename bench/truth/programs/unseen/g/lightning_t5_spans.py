"""T5 span corruption (denoising) pre-training with Lightning: 16-mixed, accumulation, clipping, Adafactor."""

from argparse import ArgumentParser

import lightning.pytorch as pl
import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset
from transformers import Adafactor, T5Config, T5ForConditionalGeneration


def corrupt(tokens, rng, vocab_size, noise=0.15, mean_span=3.0):
    """Replace random spans by sentinels; returns (encoder ids, target ids)."""
    n = len(tokens)
    n_noise = max(1, round(n * noise))
    n_spans = max(1, round(n_noise / mean_span))
    starts = np.sort(rng.choice(n - 4, n_spans, replace=False))
    source, target, pos = [], [], 0
    for k, s in enumerate(starts):
        if s < pos:
            continue
        length = min(int(rng.poisson(mean_span - 1)) + 1, n - s)
        sentinel = vocab_size - 1 - k
        source.extend(tokens[pos:s])
        source.append(sentinel)
        target.append(sentinel)
        target.extend(tokens[s : s + length])
        pos = s + length
    source.extend(tokens[pos:])
    return source + [1], target + [1]


class DenoisingStream(IterableDataset):
    def __init__(self, vocab_size, length, seed):
        self.vocab_size, self.length, self.seed = vocab_size, length, seed

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        rng = np.random.default_rng(self.seed + (info.id if info else 0))
        while True:
            tokens = (rng.zipf(1.3, self.length) % (self.vocab_size - 200) + 2).tolist()
            yield corrupt(tokens, rng, self.vocab_size)


class Collate:
    def __init__(self, source_len, target_len):
        self.source_len, self.target_len = source_len, target_len

    def __call__(self, rows):
        ids = torch.zeros(len(rows), self.source_len, dtype=torch.long)
        labels = torch.full((len(rows), self.target_len), -100, dtype=torch.long)
        for i, (s, t) in enumerate(rows):
            s, t = s[: self.source_len], t[: self.target_len]
            ids[i, : len(s)] = torch.tensor(s)
            labels[i, : len(t)] = torch.tensor(t)
        return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": labels}


class T5Denoiser(pl.LightningModule):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.model = T5ForConditionalGeneration(
            T5Config(
                vocab_size=args.vocab_size,
                d_model=args.d_model,
                d_kv=64,
                d_ff=args.d_model * 4,
                num_layers=args.layers,
                num_heads=args.d_model // 64,
                feed_forward_proj="gated-gelu",
                tie_word_embeddings=False,
                decoder_start_token_id=0,
            )
        )
        self.seen_tokens = 0

    def training_step(self, batch, batch_idx):
        out = self.model(**batch)
        self.seen_tokens += batch["attention_mask"].sum().item()
        if batch_idx % 10 == 0:
            self.print(f"batch {batch_idx} loss {out.loss.item():.4f} tokens {self.seen_tokens}")
        self.log("loss", out.loss)
        return out.loss

    def on_before_optimizer_step(self, optimizer):
        # look at the gradients now and then
        if self.global_step % 5 == 0:
            norms = [p.grad.detach().norm() for p in self.parameters() if p.grad is not None]
            self.log("grad_norm", torch.stack(norms).norm())

    def validation_step(self, batch, batch_idx):
        out = self.model(**batch)
        guess = out.logits.argmax(-1)
        mask = batch["labels"] != -100
        acc = (guess[mask] == batch["labels"][mask]).float().mean()
        self.log_dict({"val_loss": out.loss, "val_acc": acc}, prog_bar=True)

    def configure_optimizers(self):
        return Adafactor(
            self.parameters(),
            lr=1e-3,
            scale_parameter=False,
            relative_step=False,
            warmup_init=False,
        )

    def train_dataloader(self):
        return self._loader(0, self.args.batch_size)

    def val_dataloader(self):
        return self._loader(1000, self.args.batch_size * 2)

    def _loader(self, seed, batch_size):
        a = self.args
        return DataLoader(
            DenoisingStream(a.vocab_size, a.length, seed),
            batch_size=batch_size,
            num_workers=a.workers,
            collate_fn=Collate(a.length, a.length // 4),
        )


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("--vocab_size", type=int, default=32128)
    parser.add_argument("--d_model", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--batch_size", type=int, default=24)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--max_steps", type=int, default=15)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--precision", default="16-mixed")
    args = parser.parse_args()

    pl.seed_everything(0)
    model = T5Denoiser(args)
    trainer = pl.Trainer(
        accelerator="auto",
        devices=1,
        precision=args.precision,
        max_steps=args.max_steps,
        accumulate_grad_batches=args.accumulate,
        gradient_clip_val=1.0,
        val_check_interval=args.accumulate * 5,
        limit_val_batches=3,
        num_sanity_val_steps=1,
        enable_checkpointing=False,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=True,
    )
    trainer.fit(model)
    print({k: round(v.item(), 4) for k, v in trainer.callback_metrics.items()})
