"""Names of models as people write them: the same catalogue that the command `plimsoll` uses."""

from __future__ import annotations

import functools
import json
import os
import re

_CATALOGUE = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "models.jsonl"
)


def repository_of(name: str) -> str:
    """The repository on the hub that a name stands for; what is a folder or unknown stays as it is.

    >>> repository_of("llama-3-8b")
    'meta-llama/Meta-Llama-3-8B'
    """
    if os.path.exists(name) or _is_cached(name):
        return name
    return _repositories().get(_key(name), name)


def _is_cached(name: str) -> bool:
    """Whether that very name was downloaded before: then it is loaded so, without a network."""
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    cache = os.environ.get("HF_HUB_CACHE") or os.path.join(home, "hub")
    return os.path.isdir(os.path.join(cache, "models--" + name.replace("/", "--")))


@functools.lru_cache(maxsize=1)
def _repositories() -> dict[str, str]:
    with open(_CATALOGUE, encoding="utf-8") as file:
        models = [json.loads(line) for line in file if line.strip()]
    found: dict[str, str] = {}
    for model in models:
        names = [model["name"], *model.get("also", [])]
        for name in names:
            # A short name without an organization is not a repository on the hub.
            found.setdefault(_key(name), name if "/" in name else model["name"])
    return found


def _key(name: str) -> str:
    # A point between digits counts: opt-1.3b is not opt-13b.
    own = re.sub(r"(?<!\d)\.|\.(?!\d)|[^a-z0-9.]", "", name.rsplit("/", 1)[-1].lower())
    return re.sub(r"^meta(?=llama)", "", own)
