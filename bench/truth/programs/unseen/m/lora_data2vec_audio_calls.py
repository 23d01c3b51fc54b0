"""Sort recorded phone calls into topics: LoRA on a frozen data2vec-audio encoder with the Trainer in fp16, accuracy per evaluation, evaluation batch twice the training batch."""

import argparse

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch.utils.data import Dataset
from transformers import (
    Data2VecAudioConfig,
    Data2VecAudioForSequenceClassification,
    Trainer,
    TrainingArguments,
    set_seed,
)

TOPICS = ("billing", "outage", "moving", "cancel", "sales", "praise", "other")


class Calls(Dataset):
    def __init__(self, n, samples, seed):
        self.n, self.samples, self.seed = n, samples, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(self.seed * 100_003 + i)
        topic = i % len(TOPICS)
        tone = np.sin(np.arange(self.samples, dtype=np.float32) * (0.02 + 0.01 * topic))
        noise = rng.standard_normal(self.samples, dtype=np.float32)
        return {"input_values": tone + 0.5 * noise, "labels": topic}


def metrics(p):
    guess = p.predictions.argmax(-1)
    return {
        "accuracy": float((guess == p.label_ids).mean()),
        "worst": float(min((guess[p.label_ids == c] == c).mean() for c in np.unique(p.label_ids))),
    }


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=768)
    p.add_argument("--layers", type=int, default=12)
    p.add_argument("--samples", type=int, default=80_000)
    p.add_argument("--train", type=int, default=500)
    p.add_argument("--eval", type=int, default=150)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--rank", type=int, default=16)
    p.add_argument("--workers", type=int, default=4)
    p.add_argument("--cpu", action="store_true")
    a = p.parse_args()
    set_seed(5)

    config = Data2VecAudioConfig(
        hidden_size=a.hidden,
        num_hidden_layers=a.layers,
        num_attention_heads=a.hidden // 64,
        intermediate_size=4 * a.hidden,
        layerdrop=0.0,
        num_labels=len(TOPICS),
        label2id={t: i for i, t in enumerate(TOPICS)},
        id2label=dict(enumerate(TOPICS)),
    )
    base = Data2VecAudioForSequenceClassification(config)
    base.freeze_feature_encoder()
    model = get_peft_model(
        base,
        LoraConfig(
            r=a.rank,
            lora_alpha=2 * a.rank,
            lora_dropout=0.05,
            target_modules=["q_proj", "v_proj", "out_proj"],
            modules_to_save=["projector", "classifier"],
        ),
    )
    model.print_trainable_parameters()

    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir="calls",
            num_train_epochs=2,
            per_device_train_batch_size=a.batch,
            per_device_eval_batch_size=2 * a.batch,
            learning_rate=5e-4,
            fp16=not a.cpu,
            eval_strategy="epoch",
            save_strategy="epoch",
            load_best_model_at_end=True,
            metric_for_best_model="accuracy",
            logging_steps=5,
            label_names=["labels"],
            dataloader_num_workers=a.workers,
            report_to="none",
            use_cpu=a.cpu,
        ),
        train_dataset=Calls(a.train, a.samples, 1),
        eval_dataset=Calls(a.eval, a.samples, 2),
        compute_metrics=metrics,
    )
    trainer.train()
    print(trainer.evaluate())
    model.save_pretrained("calls/adapter")
    print("parameters left in fp32:", sum(q.dtype == torch.float32 for q in model.parameters()))


if __name__ == "__main__":
    main()
