"""Masked amino acids with an ESM-2 encoder under torch.compile, bf16 autocast, inverse square root schedule."""

import argparse
import time

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import EsmConfig, EsmForMaskedLM

MASK, PAD, VOCAB = 32, 1, 33


def proteins(n, length, seed):
    g = torch.Generator().manual_seed(seed)
    motif = torch.randint(4, 24, (50, 16), generator=g)
    rows = motif[torch.randint(0, 50, (n, length // 16), generator=g)].flatten(1)
    rows[:, 0], rows[:, -1] = 0, 2
    return TensorDataset(rows)


def corrupt(ids, share=0.15):
    labels = ids.clone()
    chosen = torch.rand(ids.shape, device=ids.device) < share
    labels[~chosen] = -100
    dice = torch.rand(ids.shape, device=ids.device)
    ids = torch.where(chosen & (dice < 0.8), torch.full_like(ids, MASK), ids)
    ids = torch.where(chosen & (dice > 0.9), torch.randint_like(ids, 4, 24), ids)
    return ids, labels


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=800)
    p.add_argument("--layers", type=int, default=6)
    p.add_argument("--heads", type=int, default=20)
    p.add_argument("--length", type=int, default=512)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--train", type=int, default=980)
    p.add_argument("--valid", type=int, default=128)
    p.add_argument("--lr", type=float, default=4e-4)
    p.add_argument("--backend", default="inductor")
    a = p.parse_args()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = "cuda"
    config = EsmConfig(
        vocab_size=VOCAB,
        mask_token_id=MASK,
        pad_token_id=PAD,
        hidden_size=a.hidden,
        num_hidden_layers=a.layers,
        num_attention_heads=a.heads,
        intermediate_size=4 * a.hidden,
        position_embedding_type="rotary",
        token_dropout=False,
        emb_layer_norm_before=False,
        max_position_embeddings=1026,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = EsmForMaskedLM(config).to(device)
    print(f"{model.num_parameters() / 1e6:.1f}M parameters")
    compiled = torch.compile(model, backend=a.backend)

    train = DataLoader(
        proteins(a.train, a.length, 0), batch_size=a.batch, shuffle=True, drop_last=True
    )
    valid = DataLoader(proteins(a.valid, a.length, 1), batch_size=a.batch, drop_last=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=a.lr, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda s: min((s + 1) / 10, (10 / (s + 1)) ** 0.5)
    )

    began = time.time()
    model.train()
    for step, (ids,) in enumerate(train):
        ids, labels = corrupt(ids.to(device))
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = compiled(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.3f} {time.time() - began:.1f}s")

    model.eval()
    hits = seen = 0
    with torch.no_grad(), torch.autocast(device, dtype=torch.bfloat16):
        for (ids,) in valid:
            ids, labels = corrupt(ids.to(device))
            logits = model(input_ids=ids).logits
            asked = labels != -100
            hits += (logits.argmax(-1)[asked] == labels[asked]).sum().item()
            seen += asked.sum().item()
    print(f"masked accuracy {hits / seen:.3f}")
    model.save_pretrained("esm-small")


if __name__ == "__main__":
    main()
