"""Which of 14 departments does a phone call belong to?  WavLM on raw audio of 2 to 8 seconds."""

from dataclasses import dataclass

import torch
from transformers import (
    Trainer,
    TrainingArguments,
    WavLMConfig,
    WavLMForSequenceClassification,
    set_seed,
)


@dataclass
class Settings:
    rate: int = 16000
    shortest: float = 2.0
    longest: float = 8.0
    departments: int = 14
    batch: int = 12
    eval_batch: int = 32
    steps: int = 16
    layers: int = 12
    hidden: int = 768
    train_calls: int = 240
    eval_calls: int = 64
    seed: int = 404


class Calls(torch.utils.data.Dataset):
    def __init__(self, s: Settings, n: int, seed: int):
        self.s = s
        g = torch.Generator().manual_seed(seed)
        lo, hi = int(s.shortest * s.rate), int(s.longest * s.rate)
        self.samples = torch.randint(lo, hi, (n,), generator=g).tolist()
        self.labels = torch.randint(0, s.departments, (n,), generator=g).tolist()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return {"input_values": torch.randn(self.samples[i], generator=g), "labels": self.labels[i]}


class PadAudio:
    def __call__(self, features):
        longest = max(len(f["input_values"]) for f in features)
        values = torch.zeros(len(features), longest)
        mask = torch.zeros(len(features), longest, dtype=torch.long)
        for row, f in enumerate(features):
            n = len(f["input_values"])
            values[row, :n] = f["input_values"]
            mask[row, :n] = 1
        return {
            "input_values": values,
            "attention_mask": mask,
            "labels": torch.tensor([f["labels"] for f in features]),
        }


def compute_metrics(p):
    return {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())}


def main(s: Settings):
    set_seed(s.seed)
    config = WavLMConfig(
        hidden_size=s.hidden,
        num_hidden_layers=s.layers,
        num_attention_heads=12,
        intermediate_size=4 * s.hidden,
        num_labels=s.departments,
        use_weighted_layer_sum=True,
        classifier_proj_size=256,
        apply_spec_augment=False,
        layerdrop=0.0,
    )
    model = WavLMForSequenceClassification(config)
    model.freeze_feature_encoder()
    args = TrainingArguments(
        output_dir="wavlm_calls",
        max_steps=s.steps,
        per_device_train_batch_size=s.batch,
        per_device_eval_batch_size=s.eval_batch,
        learning_rate=3e-5,
        warmup_steps=4,
        bf16=True,
        eval_strategy="steps",
        eval_steps=s.steps // 2,
        logging_steps=4,
        save_strategy="no",
        dataloader_num_workers=2,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=Calls(s, s.train_calls, 1),
        eval_dataset=Calls(s, s.eval_calls, 2),
        data_collator=PadAudio(),
        compute_metrics=compute_metrics,
    )
    trainer.train()
    for entry in trainer.state.log_history:
        if "eval_accuracy" in entry:
            print(entry["step"], entry["eval_accuracy"])


if __name__ == "__main__":
    main(Settings())
