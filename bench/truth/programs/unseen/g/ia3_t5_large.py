"""(IA)^3 on a T5-large in bf16, by hand: yes/no questions as text-to-text, evaluated by generating the answer."""

import argparse
import time

import torch
from peft import IA3Config, TaskType, get_peft_model
from torch.utils.data import DataLoader, Dataset
from transformers import T5Config, T5ForConditionalGeneration, get_linear_schedule_with_warmup

YES, NO, EOS = 4273, 150, 1


class BoolQ(Dataset):
    def __init__(self, n, max_len, vocab, seed):
        self.g = torch.Generator().manual_seed(seed)
        self.lengths = torch.randint(max_len // 4, max_len, (n,), generator=self.g)
        self.rows = [
            torch.randint(200, vocab - 100, (int(l),), generator=self.g) for l in self.lengths
        ]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        ids = self.rows[i]
        label = YES if ids[0] % 2 == 0 else NO
        return ids, torch.tensor([label, EOS])


def collate(batch):
    ids = torch.nn.utils.rnn.pad_sequence([b[0] for b in batch], batch_first=True, padding_value=0)
    labels = torch.stack([b[1] for b in batch])
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--d_model", type=int, default=1024)
    parser.add_argument("--num_layers", type=int, default=24)
    parser.add_argument("--vocab", type=int, default=32128)
    parser.add_argument("--n_train", type=int, default=384)
    parser.add_argument("--n_eval", type=int, default=128)
    parser.add_argument("--max_len", type=int, default=512)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--num_epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=8e-3)
    args = parser.parse_args()

    device = "cuda"
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=args.vocab,
        d_model=args.d_model,
        d_kv=64,
        d_ff=args.d_model * 4,
        num_layers=args.num_layers,
        num_heads=16,
        decoder_start_token_id=0,
    )
    model = T5ForConditionalGeneration(config).to(torch.bfloat16)
    peft_config = IA3Config(
        task_type=TaskType.SEQ_2_SEQ_LM, target_modules=["k", "v", "wo"], feedforward_modules=["wo"]
    )
    model = get_peft_model(model, peft_config)
    model.print_trainable_parameters()
    model = model.to(device)

    train_dataloader = DataLoader(
        BoolQ(args.n_train, args.max_len, args.vocab, 0),
        shuffle=True,
        collate_fn=collate,
        batch_size=args.batch_size,
        pin_memory=True,
    )
    eval_dataloader = DataLoader(
        BoolQ(args.n_eval, args.max_len, args.vocab, 1),
        collate_fn=collate,
        batch_size=args.batch_size * 2,
        pin_memory=True,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    lr_scheduler = get_linear_schedule_with_warmup(
        optimizer=optimizer,
        num_warmup_steps=0,
        num_training_steps=(len(train_dataloader) * args.num_epochs),
    )

    for epoch in range(args.num_epochs):
        model.train()
        total_loss = 0
        start = time.time()
        for step, batch in enumerate(train_dataloader):
            batch = {k: v.to(device) for k, v in batch.items()}
            outputs = model(**batch)
            loss = outputs.loss
            total_loss += loss.detach().float()
            loss.backward()
            optimizer.step()
            lr_scheduler.step()
            optimizer.zero_grad()
            if step % 8 == 0:
                print(f"  {epoch}/{step}: {loss.item():.4f}")

        model.eval()
        eval_loss = 0
        correct = total = 0
        for batch in eval_dataloader:
            batch = {k: v.to(device) for k, v in batch.items()}
            with torch.no_grad():
                outputs = model(**batch)
                eval_loss += outputs.loss.detach().float()
                answers = model.generate(
                    input_ids=batch["input_ids"],
                    attention_mask=batch["attention_mask"],
                    max_new_tokens=4,
                )
            correct += (answers[:, 1] == batch["labels"][:, 0]).sum().item()
            total += len(answers)
        train_epoch_loss = total_loss / len(train_dataloader)
        eval_epoch_loss = eval_loss / len(eval_dataloader)
        print(
            f"{epoch=}: train_ppl={torch.exp(train_epoch_loss).item():.3f} eval_ppl={torch.exp(eval_epoch_loss).item():.3f} "
            f"accuracy={100 * correct / total:.2f}% in {time.time() - start:.1f}s"
        )
    model.save_pretrained("t5_ia3")


if __name__ == "__main__":
    main()
