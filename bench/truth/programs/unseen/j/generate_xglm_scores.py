"""Greedy decoding with XGLM that keeps the scores of every step, to compute the entropy of each answer.

With a vocabulary of 256k the kept scores are most of the memory.
"""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import XGLMConfig, XGLMForCausalLM


def build(args, device):
    config = XGLMConfig(
        vocab_size=args.vocab,
        d_model=args.width,
        ffn_dim=args.ffn,
        num_layers=args.layers,
        attention_heads=16,
        dropout=0.0,
        attention_dropout=0.0,
        max_position_embeddings=1024,
    )
    model = XGLMForCausalLM(config).to(device)
    return model.eval()


def entropy(scores):
    """Mean entropy (nats) per row of a tuple of (batch, vocab) scores."""
    rows = []
    for step in scores:
        logp = torch.log_softmax(step.float(), dim=-1)
        rows.append(-(logp.exp() * logp.nan_to_num(neginf=0.0)).sum(-1))
    return torch.stack(rows, dim=1).mean(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--vocab", type=int, default=256008)
    ap.add_argument("--width", type=int, default=1024)
    ap.add_argument("--ffn", type=int, default=4096)
    ap.add_argument("--layers", type=int, default=24)
    ap.add_argument("--prompt", type=int, default=200)
    ap.add_argument("--answer", type=int, default=80)
    ap.add_argument("--batch", type=int, default=32)
    args = ap.parse_args()

    torch.manual_seed(70)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build(args, device)
    questions = TensorDataset(
        torch.randint(4, args.vocab, (2 * args.batch + args.batch // 2, args.prompt))
    )
    everything = []
    for (ids,) in DataLoader(questions, batch_size=args.batch):
        ids = ids.to(device)
        with torch.no_grad():
            out = model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=args.answer,
                min_new_tokens=args.answer,
                do_sample=False,
                return_dict_in_generate=True,
                output_scores=True,
            )
            everything.append(entropy(out.scores).cpu())
        print(out.sequences.shape, len(out.scores), float(everything[-1].mean()))
    total = torch.cat(everything)
    print(f"entropy {total.mean():.3f} +- {total.std():.3f} over {len(total)} answers")


if __name__ == "__main__":
    main()
