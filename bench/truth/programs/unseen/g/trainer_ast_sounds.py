"""Environmental sounds: Audio Spectrogram Transformer with Trainer, fp16, label smoothing, top-1/top-5."""

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils.data import Dataset
from transformers import ASTConfig, ASTForAudioClassification, Trainer, TrainingArguments

NUM_CLASSES = 50
FRAMES = 512
MELS = 128
TRAIN, VAL = 800, 200
HIDDEN, LAYERS, HEADS = 768, 12, 12
BATCH = 32

torch.manual_seed(0)


class Sounds(Dataset):
    """Each clip is two tones with noise; the mel filterbank is a random projection of the power spectrum."""

    def __init__(self, n, seed, augment=False):
        self.n = n
        self.seed = seed
        self.augment = augment
        g = torch.Generator().manual_seed(7)
        self.fbank = torch.rand(MELS, 201, generator=g) / 201

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100_000 + i)
        label = i % NUM_CLASSES
        samples = FRAMES * 160 + 400
        t = torch.arange(samples) / 16000
        wave = torch.sin(2 * torch.pi * (100 + 60 * label) * t) + 0.3 * torch.randn(
            samples, generator=g
        )
        spec = torch.stft(
            wave,
            400,
            hop_length=160,
            window=torch.hann_window(400),
            return_complex=True,
            center=False,
        )
        mel = (self.fbank @ spec.abs().pow(2)).clamp(min=1e-6).log().T[:FRAMES]
        mel = (mel - mel.mean()) / (2 * mel.std())
        if self.augment:
            t0 = int(torch.randint(0, max(1, FRAMES - 64), (1,)))
            f0 = int(torch.randint(0, MELS - 24, (1,)))
            mel[t0 : t0 + 64] = 0
            mel[:, f0 : f0 + 24] = 0
        return {"input_values": mel, "labels": label}


def preprocess_logits_for_metrics(logits, labels):
    if isinstance(logits, tuple):
        logits = logits[0]
    return logits.topk(5, dim=-1).indices


def compute_metrics(eval_pred):
    top5 = eval_pred.predictions
    labels = np.asarray(eval_pred.label_ids)
    return {
        "top1": float((top5[:, 0] == labels).mean()),
        "top5": float((top5 == labels[:, None]).any(axis=1).mean()),
    }


def main():
    config = ASTConfig(
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=HIDDEN * 4,
        max_length=FRAMES,
        num_mel_bins=MELS,
        num_labels=NUM_CLASSES,
        hidden_dropout_prob=0.1,
    )
    model = ASTForAudioClassification(config)
    print(sum(p.numel() for p in model.parameters()) // 10**6, "M parameters")

    args = TrainingArguments(
        "ast_sounds",
        num_train_epochs=2,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=64,
        gradient_accumulation_steps=2,
        learning_rate=5e-5,
        label_smoothing_factor=0.1,
        fp16=True,
        eval_strategy="epoch",
        save_strategy="no",
        logging_steps=5,
        dataloader_num_workers=4,
        remove_unused_columns=False,
        report_to=[],
    )
    trainer = Trainer(
        model,
        args,
        train_dataset=Sounds(TRAIN, 1, augment=True),
        eval_dataset=Sounds(VAL, 2),
        compute_metrics=compute_metrics,
        preprocess_logits_for_metrics=preprocess_logits_for_metrics,
    )
    trainer.train()
    out = trainer.predict(Sounds(VAL // 2, 3))
    print(out.metrics)
    confusion = np.zeros((NUM_CLASSES, NUM_CLASSES), dtype=int)
    np.add.at(confusion, (out.label_ids, out.predictions[:, 0]), 1)
    print("classes never predicted:", int((confusion.sum(0) == 0).sum()))
    # one clip by itself
    clip = Sounds(1, 9)[0]["input_values"][None].to(model.device)
    model.eval()
    with torch.inference_mode():
        probs = F.softmax(model(clip).logits.float(), -1)[0]
    print("single clip:", probs.argmax().item(), f"{probs.max().item():.3f}")


if __name__ == "__main__":
    main()
