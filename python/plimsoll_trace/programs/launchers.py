"""Programs that are started by a launcher: one rank of them is run, in this process.

`python -m torch.distributed.run --nproc-per-node 4 train.py` and `python -m accelerate.commands.launch
train.py` start copies of a program. What they tell each copy by its environment is set here.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from plimsoll.failure import Failure

from .distributed.uncounted import refuse_launcher
from .places import Places

_TORCH = ("torch.distributed.run", "torch.distributed.launch")
_ACCELERATE = ("accelerate.commands.launch", "accelerate.commands.accelerate_cli")
# Names without dashes, as both spellings have them.
_PROCESSES = ("nprocpernode",)
_NODES = ("nnodes",)
_SWITCHES = ("standalone", "nopython")


@dataclass
class Launch:
    """What a launcher would start, how many of it, and what it would tell them."""

    program: list[str]
    processes: int = 1
    nodes: int = 1
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def of_a_node(self) -> int:
        return max(1, self.processes // self.nodes)


def launch_of(command: list[str], places: Places) -> Launch:
    """The program behind a launcher; a command that is none is its own program."""
    if len(command) < 2 or command[0] != "-m" or command[1] not in (*_TORCH, *_ACCELERATE):
        return Launch(command)
    words = command[2:]
    if command[1] in _ACCELERATE:
        words = words[1:] if command[1].endswith("accelerate_cli") else words
        return accelerate_launch(words, places)
    given, program = _apart(words)
    if not program:
        raise Failure(
            "program-missing",
            f"the launcher {command[1]} is given no Python file and no module",
            "name the program after the options of the launcher",
        )
    nodes = _count(_first(given, _NODES) or "1", 1)
    return Launch(
        program, _count(_first(given, _PROCESSES) or "1", places.cards) * nodes, nodes=nodes
    )


def accelerate_launch(words: list[str], places: Places) -> Launch:
    """By accelerate's own code: its options, its file, and what it tells a program in its environment."""
    from accelerate.commands import launch as accelerate
    from accelerate.utils.launch import prepare_multi_gpu_env, prepare_simple_launcher_cmd_env

    parser = accelerate.launch_command_parser()
    try:
        options = parser.parse_args(words)
        places.cards = max(places.cards, options.num_processes or 1)
        options, _, _ = accelerate._validate_launch_command(options)
        options.machine_rank = options.machine_rank or 0
        # Nothing listens there; any that is free will do.
        options.main_process_port = 0
        several = options.use_fsdp or options.multi_gpu or options.num_processes > 1
        refuse_launcher(options)
        environment = (
            prepare_multi_gpu_env(options)
            if several
            else prepare_simple_launcher_cmd_env(options)[1]
        )
    except SystemExit as end:
        raise _refused("see accelerate launch --help") from end
    except (ValueError, OSError, KeyError) as error:
        raise _refused(str(error).splitlines()[0] if str(error) else "no reason given") from error
    script = ["-m"] if options.module else []
    return Launch(
        [*script, options.training_script, *options.training_script_args],
        options.num_processes,
        nodes=options.num_machines or 1,
        environment={k: v for k, v in environment.items() if os.environ.get(k) != v},
    )


def _refused(why: str) -> Failure:
    return Failure(
        "launcher-refused",
        f"accelerate launch does not accept its options: {why}",
        "check the options before the program, and the configuration file",
    )


def announce(launch: Launch) -> None:
    """Sets what a launcher tells its first process."""
    os.environ.update(launch.environment)
    if launch.processes > 1:
        os.environ.update(
            RANK="0",
            LOCAL_RANK="0",
            GROUP_RANK="0",
            WORLD_SIZE=str(launch.processes),
            LOCAL_WORLD_SIZE=str(launch.of_a_node),
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
