"""Facts about a traced run that make its estimate more or less sure.

One record goes from the observer, which finds the facts, to the last line of the trace. `trace-format.json` says what
each fact means; a field here has the same name there, in camelCase.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass
class Facts:
    skips_layers: bool = False
    compiled: bool = False
    fused: bool = False
    graphs: bool = False
    ragged: bool = False
    drawn: bool = False
    benchmark: bool = False
    guesses_trials: bool = False
    ended: bool = False
    maybe_more_bytes: int = 0
    maybe_less_bytes: int = 0

    def as_json(self) -> dict[str, bool | int]:
        return {_camel(name): value for name, value in asdict(self).items()}


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)
