"""Direct preference optimisation without a library: a 1B Llama policy in bf16 autocast, a frozen reference, margins logged."""

import argparse
import copy
import random

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM, get_cosine_schedule_with_warmup

PAD = 0


def preferences(n, vocab, max_prompt, max_answer, seed):
    rnd = random.Random(seed)
    rows = []
    for _ in range(n):
        prompt = [rnd.randrange(3, vocab) for _ in range(rnd.randint(max_prompt // 4, max_prompt))]
        chosen = [
            rnd.randrange(3, vocab // 2) for _ in range(rnd.randint(max_answer // 4, max_answer))
        ] + [2]
        rejected = [
            rnd.randrange(vocab // 2, vocab)
            for _ in range(rnd.randint(max_answer // 4, max_answer))
        ] + [2]
        rows.append({"prompt": prompt, "chosen": chosen, "rejected": rejected})
    return rows


def collate(rows):
    """chosen rows first, rejected rows after, in one batch"""
    sequences, prompt_lengths = [], []
    for key in ("chosen", "rejected"):
        for r in rows:
            sequences.append(r["prompt"] + r[key])
            prompt_lengths.append(len(r["prompt"]))
    width = max(map(len, sequences))
    ids = torch.full((len(sequences), width), PAD)
    mask = torch.zeros_like(ids)
    answer = torch.zeros_like(ids, dtype=torch.bool)
    for i, (s, p) in enumerate(zip(sequences, prompt_lengths)):
        ids[i, : len(s)] = torch.tensor(s)
        mask[i, : len(s)] = 1
        answer[i, p : len(s)] = True
    return ids, mask, answer


def sequence_logps(model, ids, mask, answer):
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1]
    logps = torch.gather(logits.float().log_softmax(-1), 2, ids[:, 1:].unsqueeze(2)).squeeze(2)
    return (logps * answer[:, 1:]).sum(-1)


def dpo_loss(policy, reference, beta):
    n = policy.shape[0] // 2
    chosen = beta * (policy[:n] - reference[:n])
    rejected = beta * (policy[n:] - reference[n:])
    loss = -F.logsigmoid(chosen - rejected).mean()
    return loss, chosen.detach(), rejected.detach()


@torch.no_grad()
def evaluate(policy, reference, loader, beta, device):
    policy.eval()
    wins, margins = [], []
    for batch in loader:
        ids, mask, answer = (t.to(device) for t in batch)
        with torch.autocast(device, dtype=torch.bfloat16):
            p = sequence_logps(policy, ids, mask, answer)
            r = sequence_logps(reference, ids, mask, answer)
        _, c, j = dpo_loss(p, r, beta)
        wins.append((c > j).float())
        margins.append(c - j)
    policy.train()
    return torch.cat(wins).mean().item(), torch.cat(margins).mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--hidden", type=int, default=2048)
    ap.add_argument("--layers", type=int, default=16)
    ap.add_argument("--vocab", type=int, default=32000)
    ap.add_argument("--pairs", type=int, default=96)
    ap.add_argument("--max_prompt", type=int, default=384)
    ap.add_argument("--max_answer", type=int, default=384)
    ap.add_argument("--batch", type=int, default=4)
    ap.add_argument("--accumulate", type=int, default=2)
    ap.add_argument("--beta", type=float, default=0.1)
    args = ap.parse_args()

    device = "cuda"
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 4,
        num_hidden_layers=args.layers,
        num_attention_heads=32,
        num_key_value_heads=8,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
    )
    policy = LlamaForCausalLM(config)
    reference = copy.deepcopy(policy).to(torch.bfloat16).to(device).eval()
    for p in reference.parameters():
        p.requires_grad = False
    policy.to(device).train()
    policy.gradient_checkpointing_enable()

    train = DataLoader(
        preferences(args.pairs, args.vocab, args.max_prompt, args.max_answer, 0),
        batch_size=args.batch,
        shuffle=True,
        collate_fn=collate,
        drop_last=True,
    )
    held_out = DataLoader(
        preferences(args.batch * 4, args.vocab, args.max_prompt, args.max_answer, 1),
        batch_size=args.batch * 2,
        collate_fn=collate,
    )
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=5e-7)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 2, len(train) // args.accumulate)

    running = []
    for step, batch in enumerate(train):
        ids, mask, answer = (t.to(device) for t in batch)
        with torch.autocast(device, dtype=torch.bfloat16):
            with torch.no_grad():
                ref_logps = sequence_logps(reference, ids, mask, answer)
            pol_logps = sequence_logps(policy, ids, mask, answer)
        loss, chosen, rejected = dpo_loss(pol_logps, ref_logps, args.beta)
        (loss / args.accumulate).backward()
        running.append(
            ((chosen > rejected).float().mean().item(), (chosen - rejected).mean().item())
        )
        if (step + 1) % args.accumulate == 0:
            norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), 10.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad(set_to_none=True)
            acc, margin = (sum(x) / len(running) for x in zip(*running))
            running.clear()
            print(
                f"step {step + 1}: loss {loss.item():.4f} acc {acc:.2f} margin {margin:.4f} grad {norm:.2f} len {ids.shape[1]}"
            )
        if (step + 1) % 12 == 0:
            print(
                "   held out: acc %.3f margin %.4f"
                % evaluate(policy, reference, held_out, args.beta, device)
            )
    policy.save_pretrained("dpo_policy")


if __name__ == "__main__":
    main()
