"""Supervised fine-tuning of a small Qwen3 on support dialogues with Lightning; the prompt's tokens are not learnt."""

import argparse

import lightning as L
import torch
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, Dataset
from transformers import Qwen3Config, Qwen3ForCausalLM, get_linear_schedule_with_warmup

parser = argparse.ArgumentParser()
parser.add_argument("--seq", type=int, default=640)
parser.add_argument("--vocab", type=int, default=60000)
parser.add_argument("--hidden", type=int, default=896)
parser.add_argument("--layers", type=int, default=14)
parser.add_argument("--batch", type=int, default=6)
parser.add_argument("--val-batch", type=int, default=10)
parser.add_argument("--dialogues", type=int, default=96)
parser.add_argument("--epochs", type=int, default=2)
opt = parser.parse_args()


class Dialogues(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(3, opt.vocab, (n, opt.seq), generator=g)
        self.prompt = torch.randint(opt.seq // 8, opt.seq // 2, (n,), generator=g)
        self.end = torch.randint(opt.seq * 3 // 4, opt.seq + 1, (n,), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        position = torch.arange(opt.seq)
        ids = torch.where(position < self.end[i], self.ids[i], 0)
        labels = torch.where((position >= self.prompt[i]) & (position < self.end[i]), ids, -100)
        return {
            "input_ids": ids,
            "attention_mask": (position < self.end[i]).long(),
            "labels": labels,
        }


class DialogueData(L.LightningDataModule):
    def setup(self, stage=None):
        self.train, self.val = Dialogues(opt.dialogues, 0), Dialogues(opt.dialogues // 4, 1)

    def train_dataloader(self):
        return DataLoader(
            self.train, batch_size=opt.batch, shuffle=True, num_workers=2, drop_last=True
        )

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=opt.val_batch, num_workers=1)


class SupportModel(L.LightningModule):
    def __init__(self, lr=1e-4):
        super().__init__()
        self.save_hyperparameters()
        self.model = Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=opt.vocab,
                hidden_size=opt.hidden,
                intermediate_size=3 * opt.hidden,
                num_hidden_layers=opt.layers,
                num_attention_heads=14,
                num_key_value_heads=2,
                head_dim=64,
                max_position_embeddings=2048,
                tie_word_embeddings=True,
            )
        )

    def training_step(self, batch, _):
        loss = self.model(**batch, use_cache=False).loss
        self.log("train_loss", loss, prog_bar=False)
        return loss

    def validation_step(self, batch, _):
        out = self.model(**batch, use_cache=False)
        hit = (out.logits[:, :-1].argmax(-1) == batch["labels"][:, 1:]).sum() / (
            batch["labels"][:, 1:] != -100
        ).sum()
        self.log_dict(
            {"val_loss": out.loss, "val_token_acc": hit}, batch_size=len(batch["input_ids"])
        )

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.01)
        schedule = get_linear_schedule_with_warmup(
            optimizer, 2, int(self.trainer.estimated_stepping_batches)
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def main():
    L.seed_everything(21, workers=True)
    trainer = L.Trainer(
        accelerator="gpu",
        devices=1,
        max_epochs=opt.epochs,
        precision="bf16-mixed",
        accumulate_grad_batches=4,
        gradient_clip_val=1.0,
        logger=CSVLogger("."),
        callbacks=[
            ModelCheckpoint(dirpath="ckpt", monitor="val_loss", save_weights_only=True),
            EarlyStopping("val_loss", patience=2),
            LearningRateMonitor("step"),
        ],
        log_every_n_steps=1,
        enable_progress_bar=False,
    )
    model = SupportModel()
    trainer.fit(model, datamodule=DialogueData())
    print(trainer.validate(model, datamodule=DialogueData(), verbose=False))


if __name__ == "__main__":
    main()
