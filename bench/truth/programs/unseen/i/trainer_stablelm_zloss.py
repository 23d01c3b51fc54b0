"""Continue pretraining a small StableLM with a z-loss term added to the cross entropy."""

import logging
import math

import torch
import torch.nn.functional as F
from transformers import StableLmConfig, StableLmForCausalLM, Trainer, TrainingArguments

logger = logging.getLogger(__name__)

SEQ = 1024
VOCAB = 50304
HIDDEN = 1024
INTER = 2816
LAYERS = 16
HEADS = 16
BATCH = 4
EVAL_BATCH = 3
ACCUM = 2
STEPS = 8
Z_WEIGHT = 1e-4


class PackedTokens(torch.utils.data.Dataset):
    def __init__(self, blocks, seed):
        gen = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(0, VOCAB, (blocks, SEQ), generator=gen, dtype=torch.int32)

    def __len__(self):
        return self.tokens.shape[0]

    def __getitem__(self, idx):
        ids = self.tokens[idx].long()
        return {"input_ids": ids, "labels": ids.clone()}


class ZLossTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        outputs = model(**inputs, use_cache=False)
        logits = outputs.logits[:, :-1].float()
        target = labels[:, 1:]
        ce = F.cross_entropy(logits.reshape(-1, logits.size(-1)), target.reshape(-1))
        z = torch.logsumexp(logits, dim=-1).pow(2).mean()
        loss = ce + Z_WEIGHT * z
        if num_items_in_batch is not None and model.training:
            loss = loss / self.args.gradient_accumulation_steps
        return (loss, outputs) if return_outputs else loss


def main():
    logging.basicConfig(level=logging.INFO)
    config = StableLmConfig(
        vocab_size=VOCAB,
        hidden_size=HIDDEN,
        intermediate_size=INTER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=HEADS,
        max_position_embeddings=SEQ,
    )
    model = StableLmForCausalLM(config)
    logger.info("StableLM with %.0fM parameters", sum(p.numel() for p in model.parameters()) / 1e6)
    args = TrainingArguments(
        output_dir="stablelm_zloss",
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=EVAL_BATCH,
        gradient_accumulation_steps=ACCUM,
        learning_rate=3e-4,
        adam_beta2=0.95,
        weight_decay=0.1,
        optim="adamw_torch_fused",
        lr_scheduler_type="cosine_with_min_lr",
        lr_scheduler_kwargs={"min_lr": 3e-5},
        warmup_steps=2,
        bf16=True,
        tf32=True,
        prediction_loss_only=True,
        eval_strategy="steps",
        eval_steps=4,
        save_strategy="no",
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
    )
    trainer = ZLossTrainer(
        model=model, args=args, train_dataset=PackedTokens(120, 0), eval_dataset=PackedTokens(18, 1)
    )
    trainer.train()
    metrics = trainer.evaluate()
    metrics["perplexity"] = math.exp(min(20, metrics["eval_loss"]))
    trainer.log_metrics("eval", metrics)
    trainer.save_metrics("eval", metrics)


if __name__ == "__main__":
    main()
