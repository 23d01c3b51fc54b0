"""Dictation: Speech2Text (S2T) trained in Lightning on filter banks of different lengths.

The validation loop also decodes greedily and counts the correct tokens.
"""

from dataclasses import asdict, dataclass

import lightning as L
import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset
from transformers import Speech2TextConfig, Speech2TextForConditionalGeneration


@dataclass
class HParams:
    d_model: int = 512
    encoder_layers: int = 12
    decoder_layers: int = 6
    vocab: int = 10000
    shortest: int = 300
    longest: int = 1500
    batch_size: int = 24
    train_size: int = 480
    valid_size: int = 96
    lr: float = 1e-3


class Dictations(Dataset):
    def __init__(self, hp, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.frames = torch.randint(hp.shortest, hp.longest, (n,), generator=g).tolist()
        self.tokens = [torch.randint(4, hp.vocab, (f // 20,), generator=g) for f in self.frames]

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(self.frames[i], 80, generator=g), self.tokens[i]


def collate(samples):
    banks, tokens = zip(*samples)
    lengths = torch.tensor([len(b) for b in banks])
    features = pad_sequence(banks, batch_first=True)
    mask = (torch.arange(features.size(1))[None] < lengths[:, None]).long()
    ending = torch.tensor([2])
    labels = pad_sequence(
        [torch.cat([t, ending]) for t in tokens], batch_first=True, padding_value=-100
    )
    return {"input_features": features, "attention_mask": mask, "labels": labels}


class Dictation(L.LightningModule):
    def __init__(self, hp: HParams):
        super().__init__()
        self.hp = hp
        self.save_hyperparameters(asdict(hp))
        self.s2t = Speech2TextForConditionalGeneration(
            Speech2TextConfig(
                vocab_size=hp.vocab,
                d_model=hp.d_model,
                encoder_layers=hp.encoder_layers,
                decoder_layers=hp.decoder_layers,
                encoder_attention_heads=8,
                decoder_attention_heads=8,
                encoder_ffn_dim=4 * hp.d_model,
                decoder_ffn_dim=4 * hp.d_model,
            )
        )

    def training_step(self, batch, i):
        loss = self.s2t(**batch).loss
        self.log("train/loss", loss, batch_size=len(batch["labels"]))
        return loss

    def validation_step(self, batch, i):
        loss = self.s2t(**batch).loss
        said = self.s2t.generate(
            input_features=batch["input_features"],
            attention_mask=batch["attention_mask"],
            max_new_tokens=24,
            do_sample=False,
            num_beams=1,
        )
        n = min(said.size(1) - 1, batch["labels"].size(1))
        right = (said[:, 1 : n + 1] == batch["labels"][:, :n]).float().mean()
        self.log_dict({"val/loss": loss, "val/right": right}, batch_size=len(said))

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hp.lr, betas=(0.9, 0.98))
        plan = torch.optim.lr_scheduler.OneCycleLR(
            opt, max_lr=self.hp.lr, total_steps=int(self.trainer.estimated_stepping_batches) + 1
        )
        return {"optimizer": opt, "lr_scheduler": {"scheduler": plan, "interval": "step"}}


def main():
    hp = HParams()
    L.seed_everything(55)
    trainer = L.Trainer(
        accelerator="auto",
        devices=1,
        max_epochs=1,
        precision="bf16-mixed",
        val_check_interval=0.5,
        limit_val_batches=2,
        num_sanity_val_steps=0,
        gradient_clip_val=10.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(
        Dictation(hp),
        DataLoader(
            Dictations(hp, hp.train_size, 1), hp.batch_size, shuffle=True, collate_fn=collate
        ),
        DataLoader(Dictations(hp, hp.valid_size, 2), hp.batch_size, collate_fn=collate),
    )
    print(trainer.callback_metrics)


if __name__ == "__main__":
    main()
