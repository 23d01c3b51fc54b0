"""Writes what parameters transformers really builds, for the tests of `src/model` to hold theirs against.

    python python/tools/record_parameter_shapes.py > test/fixtures/parameter-shapes.json
    npx biome check --write test/fixtures/parameter-shapes.json
    python python/tools/record_parameter_shapes.py --show "falcon 2"

Models are built on the `meta` device, so none of them takes memory. A case keeps the config as a
`config.json` would hold it, and of the parameters (tied ones once) their number, how many have each
shape, and a digest of their names and shapes, with the numbers in names written as `*`. `--show`
prints the names behind one digest.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
import transformers
from parameter_shape_cases import CASES, USUAL_CLASS

_NUMBER_IN_NAME = re.compile(r"(?<=\.)\d+(?=\.|$)")

# Written into every saved config; none of it has to do with parameters.
_NOISE = ("transformers_version", "id2label", "label2id", "dtype", "_name_or_path")


def cases() -> Iterator[tuple[str, dict[str, Any], str]]:
    for model_type, settings in CASES.items():
        for index, (values, class_name) in enumerate(settings):
            config = {"model_type": model_type, **values}
            if class_name is not None:
                config["architectures"] = [class_name]
            yield f"{model_type} {index}", config, class_name or USUAL_CLASS[model_type]
        # Once the whole config as transformers saves it, rather than only what differs.
        values, class_name = settings[1]
        chosen = class_name or USUAL_CLASS[model_type]
        saved = transformers.AutoConfig.for_model(model_type, **values).to_diff_dict()
        config = {key: value for key, value in saved.items() if key not in _NOISE}
        yield f"{model_type} as saved", {**config, "architectures": [chosen]}, chosen


def groups(config: dict[str, Any], class_name: str) -> Counter:
    """How many parameters there are of each (name, shape, trainable)."""
    built = transformers.AutoConfig.for_model(**json.loads(json.dumps(config)))
    with torch.device("meta"):
        model = getattr(transformers, class_name)(built)
    return Counter(
        (_NUMBER_IN_NAME.sub("*", name), tuple(parameter.shape), parameter.requires_grad)
        for name, parameter in model.named_parameters()
    )


def lines(found: Counter) -> list[str]:
    return sorted(
        f"{name} [{','.join(map(str, shape))}] {count}{'' if trainable else ' frozen'}"
        for (name, shape, trainable), count in found.items()
    )


def record(name: str, config: dict[str, Any], class_name: str) -> dict[str, Any]:
    found = groups(config, class_name)
    shapes: Counter = Counter()
    parameters = 0
    for (_, shape, _trainable), count in found.items():
        shapes["x".join(map(str, shape))] += count
        parameters += count * torch.Size(shape).numel()
    digest = hashlib.sha256("\n".join(lines(found)).encode()).hexdigest()[:16]
    return {
        "name": name,
        "class": class_name,
        "config": config,
        "parameters": parameters,
        "shapes": dict(sorted(shapes.items())),
        "digest": digest,
    }


def main() -> None:
    if sys.argv[1:2] == ["--show"]:
        for name, config, class_name in cases():
            if name == sys.argv[2]:
                print("\n".join(lines(groups(config, class_name))))
        return
    rows = [json.dumps(record(*case), sort_keys=True) for case in cases()]
    versions = json.dumps(
        {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
    )
    print('{{"versions": {},\n"cases": [\n{}\n]}}'.format(versions, ",\n".join(rows)))


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    main()
