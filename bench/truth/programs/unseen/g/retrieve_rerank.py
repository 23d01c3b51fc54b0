"""
Two-stage search: encode a corpus with a bi-encoder (fp16), exact top-k over the whole index on the GPU,
then rerank the candidates with a cross-encoder. Prints recall, MRR and timings.
"""

import argparse
import logging
import time

import numpy as np
import torch
import torch.nn.functional as F
from transformers import (
    BertConfig,
    BertModel,
    XLMRobertaConfig,
    XLMRobertaForSequenceClassification,
)

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
log = logging.getLogger("search")


def make_corpus(n, vocab, seed):
    rng = np.random.default_rng(seed)
    lengths = np.clip(rng.lognormal(4.6, 0.5, n).astype(int), 10, 500)
    return [rng.integers(1000, vocab, size=l) for l in lengths]


def batchify(rows, max_len, pad, device):
    rows = [r[:max_len] for r in rows]
    width = max(len(r) for r in rows)
    ids = np.full((len(rows), width), pad, dtype=np.int64)
    mask = np.zeros_like(ids)
    for i, r in enumerate(rows):
        ids[i, : len(r)] = r
        mask[i, : len(r)] = 1
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


@torch.no_grad()
def encode(model, rows, batch_size, max_len, device):
    order = np.argsort([-len(r) for r in rows])  # longest first
    out = torch.empty(len(rows), model.config.hidden_size, dtype=torch.float16, device=device)
    for i in range(0, len(rows), batch_size):
        chunk = order[i : i + batch_size]
        ids, mask = batchify([rows[j] for j in chunk], max_len, 0, device)
        hidden = model(input_ids=ids, attention_mask=mask).last_hidden_state
        hidden = hidden.masked_fill(~mask[..., None].bool(), 0.0)
        emb = hidden.sum(1) / mask.sum(1)[..., None]
        out[torch.from_numpy(chunk).to(device)] = F.normalize(emb.float(), dim=-1).half()
        if (i // batch_size) % 10 == 0:
            log.info("encoded %d / %d", min(i + batch_size, len(rows)), len(rows))
    return out


@torch.no_grad()
def rerank(model, query, passages, batch_size, device):
    scores = []
    for i in range(0, len(passages), batch_size):
        rows = [
            np.concatenate([[0], query, [2, 2], p[:400], [2]]) for p in passages[i : i + batch_size]
        ]
        ids, mask = batchify(rows, 512, 1, device)
        scores.append(model(input_ids=ids, attention_mask=mask).logits.view(-1).float())
    return torch.cat(scores)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--corpus", type=int, default=12000)
    ap.add_argument("--queries", type=int, default=32)
    ap.add_argument("--batch_size", type=int, default=256)
    ap.add_argument("--rerank_batch", type=int, default=50)
    ap.add_argument("--top_k", type=int, default=100)
    ap.add_argument("--hidden", type=int, default=1024)
    ap.add_argument("--layers", type=int, default=24)
    ap.add_argument("--device", default="cuda")
    args = ap.parse_args()
    device = torch.device(args.device)
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    torch.manual_seed(0)
    vocab = 30522

    encoder = BertModel(
        BertConfig(
            vocab_size=vocab,
            hidden_size=args.hidden,
            num_hidden_layers=args.layers,
            num_attention_heads=16,
            intermediate_size=args.hidden * 4,
        ),
        add_pooling_layer=False,
    )
    encoder = encoder.to(device, dtype).eval()
    passages = make_corpus(args.corpus, vocab, 0)
    rng = np.random.default_rng(1)
    gold = rng.integers(0, len(passages), args.queries)
    queries = [passages[g][: rng.integers(8, 24)] for g in gold]

    start = time.time()
    index = encode(encoder, passages, args.batch_size, 512, device)
    log.info("index %s %s in %.1f s", tuple(index.shape), index.dtype, time.time() - start)
    q = encode(encoder, queries, args.batch_size, 64, device)
    scores = q.float() @ index.float().T
    top = scores.topk(min(args.top_k, len(passages)), dim=1)
    gold_t = torch.from_numpy(gold).to(device)[:, None]
    log.info(
        "first stage recall@%d %.3f",
        args.top_k,
        (top.indices == gold_t).any(1).float().mean().item(),
    )

    del encoder, index, scores
    cross = XLMRobertaForSequenceClassification(
        XLMRobertaConfig(
            vocab_size=250002,
            hidden_size=args.hidden,
            num_hidden_layers=args.layers,
            num_attention_heads=16,
            intermediate_size=args.hidden * 4,
            max_position_embeddings=514,
            type_vocab_size=1,
            num_labels=1,
        )
    ).to(device, dtype)
    cross.eval()
    ranks = []
    start = time.time()
    for n, query in enumerate(queries):
        candidates = top.indices[n].tolist()
        s = rerank(cross, query, [passages[c] for c in candidates], args.rerank_batch, device)
        ordered = [candidates[i] for i in s.argsort(descending=True).tolist()]
        ranks.append(ordered.index(gold[n]) + 1 if gold[n] in ordered else 0)
    log.info("reranked %d queries in %.1f s", len(queries), time.time() - start)
    print(
        "MRR",
        np.mean([1 / r if r else 0 for r in ranks]),
        "hits@10",
        np.mean([0 < r <= 10 for r in ranks]),
    )


if __name__ == "__main__":
    main()
