"""Writes which arguments transformers takes, for the test that holds our quantization presets to them.

    python python/tools/record_transformers_signatures.py > test/fixtures/transformers-signatures.json

BitsAndBytesConfig swallows what it does not know without an error, so a wrong name would go unseen.
"""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from typing import Any, Callable

import transformers
from transformers import BitsAndBytesConfig, PreTrainedModel


def popped_keywords(function: Callable[..., Any]) -> Iterator[str]:
    """The names in `kwargs.pop("name", ...)`, which is how from_pretrained takes its arguments."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "pop"
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id == "kwargs"
            and isinstance(node.args[0], ast.Constant)
        ):
            yield node.args[0].value


def main() -> None:
    config = inspect.signature(BitsAndBytesConfig.__init__).parameters.values()
    named = [one.name for one in config if one.kind is one.POSITIONAL_OR_KEYWORD]
    signatures = {
        "transformers": transformers.__version__,
        "BitsAndBytesConfig": [name for name in named if name != "self"],
        "from_pretrained": sorted(set(popped_keywords(PreTrainedModel.from_pretrained))),
    }
    print(json.dumps(signatures, indent=2))


main()
