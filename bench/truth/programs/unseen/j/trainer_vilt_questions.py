"""Visual question answering with ViLT.

Soft answer scores over 3129 answers, a callback that unfreezes the
transformer's lower half after a few steps.
"""

import torch
from torch.utils.data import Dataset
from transformers import (
    Trainer,
    TrainerCallback,
    TrainingArguments,
    ViltConfig,
    ViltForQuestionAnswering,
    set_seed,
)

IMAGE_SIZE = 384
PATCH = 32
QUESTION_LEN = 40
ANSWERS = 3129
LAYERS = 12
BATCH = 48
EVAL_BATCH = 64
STEPS = 20
THAW_AT = 8
N_TRAIN, N_EVAL = 320, 128


class VQA(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.images = torch.randint(
            0, 256, (n, 3, IMAGE_SIZE, IMAGE_SIZE), dtype=torch.uint8, generator=g
        )
        self.questions = torch.randint(1000, 30522, (n, QUESTION_LEN), generator=g)
        self.answers = torch.randint(0, ANSWERS, (n, 3), generator=g)

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        scores = torch.zeros(ANSWERS)
        scores[self.answers[i]] = torch.tensor([1.0, 0.6, 0.3])
        return {
            "input_ids": self.questions[i],
            "attention_mask": torch.ones(QUESTION_LEN, dtype=torch.long),
            "token_type_ids": torch.zeros(QUESTION_LEN, dtype=torch.long),
            "pixel_values": self.images[i].float().div(127.5).sub(1.0),
            "pixel_mask": torch.ones(IMAGE_SIZE, IMAGE_SIZE, dtype=torch.long),
            "labels": scores,
        }


class Thaw(TrainerCallback):
    def __init__(self, at):
        self.at = at

    def on_train_begin(self, args, state, control, model=None, **kwargs):
        self._set(model, False)

    def on_step_begin(self, args, state, control, model=None, **kwargs):
        if state.global_step == self.at:
            self._set(model, True)
            print(f"step {state.global_step}: everything trains now")

    @staticmethod
    def _set(model, flag):
        for layer in model.vilt.encoder.layer[: LAYERS // 2]:
            layer.requires_grad_(flag)


def main():
    set_seed(21)
    config = ViltConfig(
        image_size=IMAGE_SIZE,
        patch_size=PATCH,
        num_hidden_layers=LAYERS,
        max_position_embeddings=QUESTION_LEN,
        num_labels=ANSWERS,
        hidden_dropout_prob=0.1,
    )
    model = ViltForQuestionAnswering(config)
    args = TrainingArguments(
        output_dir="./vilt_vqa",
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=EVAL_BATCH,
        learning_rate=1e-4,
        weight_decay=0.01,
        bf16=True,
        bf16_full_eval=False,
        eval_strategy="steps",
        eval_steps=10,
        logging_steps=5,
        save_strategy="no",
        dataloader_num_workers=4,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = Trainer(
        model=model,
        args=args,
        train_dataset=VQA(N_TRAIN, 0),
        eval_dataset=VQA(N_EVAL, 1),
        callbacks=[Thaw(THAW_AT)],
    )
    trainer.train()


if __name__ == "__main__":
    main()
