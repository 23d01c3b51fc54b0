"""What the allocator is asked for by `flex_attention` on a GPU, compiled and not.

    python3 bench/gpu/flex_attention.py [--output FILE]

For each shape: every allocation and free of one mask, one forward and one backward, after three warm ones.
About a minute on an H200; most of it is the compiler's.
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

# Samples, heads of the queries, heads of the keys, tokens, features of a head.
SHAPES = [
    (2, 8, 8, 1024, 64),
    (2, 8, 8, 1000, 64),
    (1, 16, 4, 2048, 128),
    (4, 4, 4, 512, 32),
    (1, 8, 8, 300, 80),
]


def causal(b: Any, h: Any, q: Any, k: Any) -> Any:
    return q >= k


def bias(score: Any, b: Any, h: Any, q: Any, k: Any) -> Any:
    return score + (q - k)


def events(begin: int) -> list[list[Any]]:
    trace = torch.cuda.memory._snapshot()["device_traces"][0][begin:]
    kinds = {"alloc": "alloc", "free_completed": "free", "segment_alloc": "segment"}
    return [[kinds[e["action"]], e["size"], e["addr"]] for e in trace if e["action"] in kinds]


def seen() -> int:
    return len(torch.cuda.memory._snapshot()["device_traces"][0])


def measured(
    shape: tuple[int, ...], dtype: torch.dtype, compiled: bool, kind: str
) -> dict[str, Any]:
    samples, heads, key_heads, tokens, features = shape
    call = torch.compile(flex_attention) if compiled else flex_attention
    words: dict[str, Any] = {"enable_gqa": heads != key_heads}
    result: dict[str, Any] = {
        "shape": shape,
        "dtype": str(dtype),
        "compiled": compiled,
        "kind": kind,
    }
    if kind == "bias":
        words["score_mod"] = bias

    def made(count: int) -> torch.Tensor:
        return torch.randn(
            samples, count, tokens, features, device="cuda", dtype=dtype, requires_grad=True
        )

    for turn in range(4):
        query, key, value = made(heads), made(key_heads), made(key_heads)
        upstream = torch.randn(samples, heads, tokens, features, device="cuda", dtype=dtype)
        marks = [seen()]
        before = torch.cuda.memory_allocated()
        if kind == "mask":
            words["block_mask"] = create_block_mask(
                causal, None, None, tokens, tokens, device="cuda"
            )
        after_mask = torch.cuda.memory_allocated()
        marks.append(seen())
        torch.cuda.reset_peak_memory_stats()
        out = call(query, key, value, **words)
        after_forward, peak_forward = (
            torch.cuda.memory_allocated(),
            torch.cuda.max_memory_allocated(),
        )
        marks.append(seen())
        torch.cuda.reset_peak_memory_stats()
        out.backward(upstream)
        after, peak = torch.cuda.memory_allocated(), torch.cuda.max_memory_allocated()
        marks.append(seen())
        if turn == 3:
            whole = events(marks[0])
            result |= {
                "maskBytes": after_mask - before,
                "forwardKeptBytes": after_forward - after_mask,
                "forwardPeakBytes": peak_forward - after_mask,
                "backwardKeptBytes": after - after_forward,
                "backwardPeakBytes": peak - after_forward,
                "outStrides": list(out.stride()),
                "events": whole,
                "marks": [mark - marks[0] for mark in marks],
            }
        del query, key, value, upstream, out
        words.pop("block_mask", None)
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--output")
    output = parser.parse_args().output
    torch.cuda.memory._record_memory_history(max_entries=1_000_000, stacks="python", context=None)
    results = []
    for compiled in (True, False):
        for shape in SHAPES:
            for dtype in (torch.bfloat16, torch.float32):
                for kind in ("plain", "mask", "bias"):
                    torch._dynamo.reset()
                    try:
                        one = measured(shape, dtype, compiled, kind)
                    except Exception as error:
                        one = {
                            "shape": shape,
                            "dtype": str(dtype),
                            "compiled": compiled,
                            "kind": kind,
                        }
                        one["error"] = f"{type(error).__name__}: {error}"[:300]
                    results.append(one)
                    print(json.dumps({k: v for k, v in one.items() if k != "events"}), flush=True)
                    if output:
                        with open(output, "w", encoding="utf-8") as file:
                            json.dump({"torch": torch.__version__, "results": results}, file)


if __name__ == "__main__":
    main()
