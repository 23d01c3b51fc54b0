"""Speaker identification from 4-second waveforms: HuBERT with layer-wise learning rates, in Lightning."""

import lightning as L
import torch
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import MulticlassAccuracy
from transformers import HubertConfig, HubertForSequenceClassification

SAMPLES = 4 * 16000
SPEAKERS = 251
BATCH, VAL_BATCH = 16, 28
TRAIN_CLIPS, VAL_CLIPS = 200, 70
EPOCHS = 1
WIDTH, LAYERS, HEADS = 1024, 16, 16


class Voices(Dataset):
    def __init__(self, n):
        self.speaker = torch.randint(0, SPEAKERS, (n,))

    def __len__(self):
        return len(self.speaker)

    def __getitem__(self, i):
        t = torch.arange(SAMPLES) / 16000
        pitch = 90 + self.speaker[i].item()
        wave = torch.sin(2 * torch.pi * pitch * t) + 0.3 * torch.randn(SAMPLES)
        return (wave - wave.mean()) / wave.std(), self.speaker[i]


class SpeakerNet(L.LightningModule):
    def __init__(self, lr=3e-5, decay=0.85):
        super().__init__()
        self.lr, self.decay = lr, decay
        self.hubert = HubertForSequenceClassification(
            HubertConfig(
                hidden_size=WIDTH,
                num_hidden_layers=LAYERS,
                num_attention_heads=HEADS,
                intermediate_size=4 * WIDTH,
                do_stable_layer_norm=True,
                feat_extract_norm="layer",
                conv_bias=True,
                num_labels=SPEAKERS,
                use_weighted_layer_sum=True,
                layerdrop=0.0,
                apply_spec_augment=True,
                mask_time_prob=0.05,
            )
        )
        self.hubert.freeze_feature_encoder()
        self.top1 = MulticlassAccuracy(SPEAKERS, average="micro")

    def training_step(self, batch, index):
        wave, speaker = batch
        loss = self.hubert(input_values=wave, labels=speaker).loss
        self.log("loss", loss, on_step=True)
        return loss

    def validation_step(self, batch, index):
        wave, speaker = batch
        logits = self.hubert(input_values=wave).logits
        self.top1.update(logits.argmax(-1), speaker)
        self.log("val_top1", self.top1, on_epoch=True)

    def configure_optimizers(self):
        layers = list(self.hubert.hubert.encoder.layers)
        groups, taken = [], set()
        for depth, layer in enumerate(reversed(layers)):
            params = list(layer.parameters())
            taken.update(id(p) for p in params)
            groups.append({"params": params, "lr": self.lr * self.decay**depth})
        rest = [p for p in self.hubert.parameters() if p.requires_grad and id(p) not in taken]
        groups.append({"params": rest, "lr": 10 * self.lr})
        optimizer = torch.optim.AdamW(groups, lr=self.lr)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer,
            max_lr=[g["lr"] for g in groups],
            total_steps=self.trainer.estimated_stepping_batches,
        )
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


class ReportMemory(L.Callback):
    def on_train_end(self, trainer, module):
        print("peak after training", torch.cuda.max_memory_allocated() // 2**20, "MiB")


if __name__ == "__main__":
    torch.set_float32_matmul_precision("high")
    train = DataLoader(
        Voices(TRAIN_CLIPS), batch_size=BATCH, shuffle=True, num_workers=3, persistent_workers=True
    )
    val = DataLoader(Voices(VAL_CLIPS), batch_size=VAL_BATCH, num_workers=2)
    trainer = L.Trainer(
        max_epochs=EPOCHS,
        accelerator="gpu",
        devices=1,
        precision="16-mixed",
        callbacks=[ReportMemory()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        num_sanity_val_steps=1,
    )
    model = SpeakerNet()
    trainer.fit(model, train, val)
    print({k: float(v) for k, v in trainer.callback_metrics.items()})
    trainer.save_checkpoint("speakers.ckpt", weights_only=True)
