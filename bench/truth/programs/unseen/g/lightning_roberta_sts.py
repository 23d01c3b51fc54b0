"""Sentence similarity: a siamese RoBERTa in Lightning with a DataModule, checkpointing, early stopping, test, predict."""

import random

import lightning as L
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanAbsoluteError, PearsonCorrCoef
from transformers import RobertaConfig, RobertaModel, get_linear_schedule_with_warmup

VOCAB = 50265
PAD = 1


class SentencePairs(Dataset):
    def __init__(self, n, max_len, seed):
        rng = random.Random(seed)
        self.items = []
        for _ in range(n):
            a = [rng.randrange(4, VOCAB) for _ in range(rng.randint(6, max_len - 2))]
            keep = rng.random()
            b = [w if rng.random() < keep else rng.randrange(4, VOCAB) for w in a][
                : rng.randint(5, len(a))
            ]
            self.items.append(([0] + a + [2], [0] + b + [2], keep))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def pad(seqs):
    longest = max(map(len, seqs))
    ids = torch.tensor([s + [PAD] * (longest - len(s)) for s in seqs])
    return ids, (ids != PAD).long()


def collate(batch):
    a, b, y = zip(*batch)
    return {"a": pad(a), "b": pad(b), "score": torch.tensor(y, dtype=torch.float32)}


class STSData(L.LightningDataModule):
    def __init__(self, n=2400, max_len=128, batch_size=64, num_workers=4):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage=None):
        hp = self.hparams
        if stage in (None, "fit"):
            self.train = SentencePairs(hp.n, hp.max_len, 0)
            self.val = SentencePairs(hp.n // 6, hp.max_len, 1)
        if stage in (None, "test", "predict"):
            self.test = SentencePairs(hp.n // 6, hp.max_len, 2)

    def _loader(self, ds, shuffle=False, mult=1):
        return DataLoader(
            ds,
            batch_size=self.hparams.batch_size * mult,
            shuffle=shuffle,
            collate_fn=collate,
            num_workers=self.hparams.num_workers,
            pin_memory=True,
        )

    def train_dataloader(self):
        return self._loader(self.train, shuffle=True)

    def val_dataloader(self):
        return self._loader(self.val, mult=2)

    def test_dataloader(self):
        return self._loader(self.test, mult=2)

    def predict_dataloader(self):
        return self._loader(self.test, mult=4)


class SiameseRoberta(L.LightningModule):
    def __init__(self, hidden=768, layers=12, lr=2e-5, warmup=10):
        super().__init__()
        self.save_hyperparameters()
        config = RobertaConfig(
            vocab_size=VOCAB,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=12,
            intermediate_size=4 * hidden,
            max_position_embeddings=514,
            type_vocab_size=1,
        )
        self.encoder = RobertaModel(config, add_pooling_layer=False)
        self.proj = nn.Linear(hidden, 256)
        self.pearson = PearsonCorrCoef()
        self.mae = MeanAbsoluteError()
        self.test_mae = MeanAbsoluteError()

    def embed(self, ids, mask):
        h = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        m = mask.unsqueeze(-1).to(h.dtype)
        return F.normalize(self.proj((h * m).sum(1) / m.sum(1)), dim=-1)

    def forward(self, batch):
        return (self.embed(*batch["a"]) * self.embed(*batch["b"])).sum(-1)

    def training_step(self, batch, batch_idx):
        cos = self(batch)
        loss = F.mse_loss(cos.float(), batch["score"])
        self.log("train_loss", loss, prog_bar=True, batch_size=len(cos))
        return loss

    def validation_step(self, batch, batch_idx):
        cos = self(batch).float()
        self.pearson.update(cos, batch["score"])
        self.mae(cos, batch["score"])
        self.log("val_loss", F.mse_loss(cos, batch["score"]), batch_size=len(cos))
        self.log("val_mae", self.mae, batch_size=len(cos))

    def on_validation_epoch_end(self):
        r = self.pearson.compute()
        self.log("val_pearson", torch.nan_to_num(r), prog_bar=True)
        self.pearson.reset()

    def test_step(self, batch, batch_idx):
        self.test_mae(self(batch).float(), batch["score"])
        self.log("test_mae", self.test_mae)

    def predict_step(self, batch, batch_idx, dataloader_idx=0):
        return self(batch)

    def configure_optimizers(self):
        no_decay = ("bias", "LayerNorm.weight")
        groups = [
            {
                "params": [p for n, p in self.named_parameters() if not n.endswith(no_decay)],
                "weight_decay": 0.01,
            },
            {
                "params": [p for n, p in self.named_parameters() if n.endswith(no_decay)],
                "weight_decay": 0.0,
            },
        ]
        opt = torch.optim.AdamW(groups, lr=self.hparams.lr)
        sched = get_linear_schedule_with_warmup(
            opt, self.hparams.warmup, int(self.trainer.estimated_stepping_batches)
        )
        return [opt], [{"scheduler": sched, "interval": "step"}]


def main(n=2400, hidden=768, layers=12, batch_size=64, num_workers=4):
    L.seed_everything(2024, workers=True)
    dm = STSData(n=n, batch_size=batch_size, num_workers=num_workers)
    model = SiameseRoberta(hidden=hidden, layers=layers)
    checkpoint = ModelCheckpoint(
        "sts_ckpt", monitor="val_mae", mode="min", save_top_k=1, save_weights_only=True
    )
    trainer = L.Trainer(
        accelerator="auto",
        devices=1,
        max_epochs=3,
        precision="bf16-mixed",
        gradient_clip_val=1.0,
        callbacks=[checkpoint, EarlyStopping("val_mae", patience=2), LearningRateMonitor("step")],
        logger=CSVLogger("sts_logs"),
        log_every_n_steps=10,
        enable_progress_bar=False,
    )
    trainer.fit(model, datamodule=dm)
    print("best", checkpoint.best_model_path, checkpoint.best_model_score)
    trainer.test(model, datamodule=dm, ckpt_path="best")
    predictions = torch.cat(trainer.predict(model, datamodule=dm))
    print("predicted", predictions.shape, "mean", predictions.float().mean().item())


if __name__ == "__main__":
    main()
