"""Programs that are started by a launcher: one rank of them is run, in this process.

`python -m torch.distributed.run --nproc-per-node 4 train.py` and `python -m accelerate.commands.launch
train.py` start copies of a program. What they tell each copy by its environment is set here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from ...failure import Failure

_TORCH = ("torch.distributed.run", "torch.distributed.launch")
_ACCELERATE = ("accelerate.commands.launch", "accelerate.commands.accelerate_cli")
# Names without dashes, as both spellings have them.
_PROCESSES = ("nprocpernode", "numprocesses")
_NODES = ("nnodes", "nummachines")
# Of accelerate: an option, and the variable that its value is handed on in.
_VARIABLES = {"mixedprecision": "ACCELERATE_MIXED_PRECISION"}
_SWITCHES = ("multigpu", "standalone", "usefsdp", "usedeepspeed", "nopython", "dynamobackend")


@dataclass
class Launch:
    """What a launcher would start, how many of it, and what it would tell them."""

    program: list[str]
    processes: int = 1
    environment: dict[str, str] = field(default_factory=dict)


def launch_of(command: list[str], cards: int) -> Launch:
    """The program behind a launcher; a command that is none is its own program."""
    if len(command) < 2 or command[0] != "-m" or command[1] not in (*_TORCH, *_ACCELERATE):
        return Launch(command)
    words = command[2:]
    if command[1] == "accelerate.commands.accelerate_cli":
        words = words[1:]
    given, program = _apart(words)
    if not program:
        raise Failure(
            "program-missing",
            f"the launcher {command[1]} is given no Python file and no module",
            "name the program after the options of the launcher",
        )
    nodes = _count(_first(given, _NODES) or "1", 1)
    processes = _count(_first(given, _PROCESSES) or "1", cards) * nodes
    launch = Launch(program, processes)
    for name, variable in _VARIABLES.items():
        if name in given:
            launch.environment[variable] = given[name]
    if "usefsdp" in given or "usedeepspeed" in given:
        raise Failure(
            "program-sharded",
            "a program that shards its model over processes (FSDP, DeepSpeed) is not traced",
            "measure it on its GPUs",
        )
    return launch


def announce(launch: Launch) -> None:
    """Sets what a launcher tells its first process."""
    os.environ.update(launch.environment)
    if launch.processes > 1:
        world = str(launch.processes)
        os.environ.update(
            RANK="0",
            LOCAL_RANK="0",
            GROUP_RANK="0",
            WORLD_SIZE=world,
            LOCAL_WORLD_SIZE=world,
            MASTER_ADDR="127.0.0.1",
            MASTER_PORT="29500",
        )


def _apart(words: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options of the launcher, then the program: the first file, or what follows `-m`."""
    given: dict[str, str] = {}
    at = 0
    while at < len(words):
        word = words[at]
        if word in ("-m", "--module"):
            return given, ["-m", *words[at + 1 :]] if at + 1 < len(words) else []
        if not word.startswith("-") or word.endswith(".py"):
            return given, words[at:]
        name, has_value, value = word.lstrip("-").partition("=")
        name = name.replace("-", "").replace("_", "").lower()
        following = words[at + 1] if at + 1 < len(words) else ""
        takes_next = (
            not has_value
            and name not in _SWITCHES
            and bool(following)
            and not following.startswith("-")
            and not following.endswith(".py")
        )
        given[name] = following if takes_next else value
        at += 2 if takes_next else 1
    return given, []


def _first(given: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((given[name] for name in names if given.get(name)), None)


def _count(text: str, cards: int) -> int:
    """`4`, `1:4` (the most of a range), or `gpu` and `auto`: as many as there are cards."""
    last = text.rpartition(":")[2]
    return int(last) if last.isdigit() and int(last) > 0 else cards
