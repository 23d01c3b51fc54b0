"""Makes small faults in the Python package, one at a time, and counts those that its tests notice.

    python python/tools/mutants.py python-kernels --sample 300 --seed 37

The faults are those of Cosmic Ray. Each is tried in a process that is forked from one that has torch loaded, by the
tests that run its line, the quickest first, until one fails. Tests that start processes of their own are left out:
these would run the package as it is on the disk. Texts, annotations and log lines are not changed.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import importlib.machinery
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from collections import Counter
from functools import partial
from typing import Any, Callable, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / "python"
TESTS = ROOT / "python" / "tests"
ROWS = ROOT / "bench" / "results" / "rows" / "mutants-python.json"
TOOL = "cosmic-ray==8.7.0"
# Of Cosmic Ray only the part that changes code is used, and what that part imports.
INSTALLED = (TOOL, "attrs==26.1.0", "parso==0.8.7", "stevedore==5.10.0")
INSTALLED_AT = ROOT / "build" / "mutants" / TOOL.replace("==", "-")

# By area: files of the package, the files left out, and the tests that may notice.
AREAS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    "python-recovery": (
        (
            "plimsoll/recovery/**/*.py",
            "plimsoll/leaks/*.py",
            "plimsoll/distributed/agreement.py",
            "plimsoll/distributed/ranks.py",
        ),
        (),
        (
            "sdk/test_r*.py",
            "sdk/test_failures.py",
            "sdk/test_tools.py",
            "keeping/test_keeping.py",
            "buffering/test_buffers.py",
        ),
    ),
    "python-kernels": (
        ("plimsoll_trace/kernels/**/*.py",),
        (),
        (
            "tracing/test_convolutions.py",
            "tracing/test_rec*.py",
            "tracing/calls/test_calls.py",
            "tracing/choices/test_*.py",
            "tracing/kinds/test_attention.py",
            "tracing/kinds/test_images.py",
            "tracing/kinds/test_memory.py",
            "tracing/kinds/test_numbers.py",
        ),
    ),
}

# Of all ways to turn an operator those that tests find hardest to notice, and the opposite.
TURNED = {
    "ComparisonOperator": (
        "Lt_LtE Lt_GtE LtE_Lt LtE_Gt Gt_GtE Gt_LtE GtE_Gt GtE_Lt Eq_NotEq NotEq_Eq Is_IsNot IsNot_Is"
    ),
    "BinaryOperator": (
        "Add_Sub Sub_Add Mul_Div Div_Mul FloorDiv_Mul Mod_Mul Pow_Mul LShift_RShift RShift_LShift"
        " BitOr_BitAnd BitAnd_BitOr"
    ),
    "UnaryOperator": "USub_UAdd Delete_Not",
}
OTHER_OPERATORS = (
    "AddNot ReplaceTrueWithFalse ReplaceFalseWithTrue ReplaceAndWithOr ReplaceOrWithAnd"
    " ReplaceBreakWithContinue ReplaceContinueWithBreak ExceptionReplacer RemoveDecorator"
    " ZeroIterationForLoop"
)

# Of thousands of faults so many are tried: the score is then right within about eight points.
SAMPLE = 80
# Kinds of nodes of which no operator changes any.
_NEVER_CHANGED = {"name", "newline", "string", "fstring_string", "endmarker"}

# Tests that take tens of seconds for each fault.
SLOW = "keeping.test_keeping.Counters.test_a_step_that_failed_anywhere_is_undone_whole_or_refused"
# Of tests that fail at random places so many do here.
os.environ["PLIMSOLL_TEST_INJECTIONS"] = "12"
# In place of the seconds of a test that fails as it is.
FAILS = -1.0
# How tests notice a fault: one fails, or does not end.
NOTICED = ("killed", "timeout")
# Tests of one fault may take so many times as long as without it, and so much more.
TIMES, SECONDS_MORE = 5, 20
# Tests that take longer than this altogether are not all tried.
MAX_SECONDS = 60
# A fault may make a loop that takes memory without end.
MORE_BYTES = 6 * 2**30


class Place(NamedTuple):
    """One way to change one place of a file."""

    path: pathlib.Path
    line: int
    operator: str
    occurrence: int
    # The line as it is.
    text: str


class Fault(NamedTuple):
    path: str
    line: int
    operator: str
    # The line as it becomes.
    text: str
    source: str


class Seen(NamedTuple):
    """A test without a fault: its seconds of a processor, and the lines that it runs of each file."""

    name: str
    seconds: float
    lines: dict[str, set[int]]


def install() -> None:
    if not (INSTALLED_AT / "cosmic_ray").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target"]
        subprocess.run([*command, str(INSTALLED_AT), *INSTALLED], check=True)
    sys.path.append(str(INSTALLED_AT))


def operators() -> dict[str, Any]:
    import parso
    from cosmic_ray.operators.operator import Operator
    from cosmic_ray.operators.provider import OperatorProvider

    class RemoveCall(Operator):
        """Leaves out a statement that only calls something: a release, a note of what happened."""

        def mutation_positions(self, node):
            if node.type == "simple_stmt" and _is_call(node.children[0]):
                yield node.start_pos, node.children[0].end_pos

        def mutate(self, node, index):
            node.children[0] = parso.parse(node.children[0].get_first_leaf().prefix + "pass")
            return node

        @classmethod
        def examples(cls):
            return ()

    class ChangeNumber(Operator):
        """One more and one less; twice as much where a part of one is no smaller change."""

        def mutation_positions(self, node):
            if node.type == "number":
                for _ in _changed(node.value):
                    yield node.start_pos, node.end_pos

        def mutate(self, node, index):
            node.value = _changed(node.value)[index]
            return node

        @classmethod
        def examples(cls):
            return ()

    provided = OperatorProvider()
    turned = [f"Replace{kind}_{pair}" for kind, pairs in TURNED.items() for pair in pairs.split()]
    found = {name: provided[name]() for name in (*turned, *OTHER_OPERATORS.split())}
    return {**found, "RemoveCall": RemoveCall(), "ChangeNumber": ChangeNumber()}


def _is_call(node: Any) -> bool:
    return node.type in ("atom_expr", "power") and node.children[-1].get_code().startswith("(")


def _changed(text: str) -> list[str]:
    value = ast.literal_eval(text)
    return [str(value + 1), str(value - 1)] if isinstance(value, int) else [str(value * 2)]


def places_of(path: pathlib.Path, all_operators: dict[str, Any]) -> list[Place]:
    from cosmic_ray.ast import ast_nodes, get_ast

    source = path.read_text(encoding="utf-8")
    left_out, lines = _left_out(ast.parse(source)), source.splitlines()
    nodes = [node for node in ast_nodes(get_ast(source)) if node.type not in _NEVER_CHANGED]
    return [
        Place(path, start[0], name, occurrence, lines[start[0] - 1])
        for name, operator in all_operators.items()
        for occurrence, start in enumerate(
            start for node in nodes for start, _ in operator.mutation_positions(node)
        )
        if not any(begin <= start < end for begin, end in left_out)
    ]


def drawn(
    places: list[Place], sample: int, seed: int, all_operators: dict[str, Any]
) -> list[Fault]:
    """As many faults as wanted, or all where that is 0; the same ones as long as the code is the same."""
    from cosmic_ray.mutating import mutate_code

    def order(place: Place) -> str:
        key = (seed, place.path.name, place.operator, place.occurrence, place.text)
        return hashlib.sha256(str(key).encode()).hexdigest()

    found: dict[str, Fault] = {}
    for place in sorted(places, key=order):
        source = place.path.read_text(encoding="utf-8")
        changed = mutate_code(source, all_operators[place.operator], place.occurrence)
        try:
            compile(changed, place.path.name, "exec")
        except (SyntaxError, TypeError):
            continue
        texts = zip(source.splitlines(), changed.splitlines())
        text = next((new.strip() for old, new in texts if old != new), "")
        name = str(place.path.relative_to(PYTHON))
        found.setdefault(changed, Fault(name, place.line, place.operator, text, changed))
        if len(found) == sample:
            break
    return list(found.values())


def _left_out(tree: ast.Module) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """The beginnings and ends of annotations, texts made of values, and lines for the log."""
    nodes: list[Any] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.arg, ast.AnnAssign)):
            nodes.append(node.annotation)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            nodes.append(node.returns)
        elif isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Expr) and ast.unparse(node).startswith("log.")
        ):
            nodes.append(node)
    return [
        ((node.lineno, node.col_offset), (node.end_lineno, node.end_col_offset))
        for node in nodes
        if node is not None
    ]


class OwnProcess:
    """In place of what starts a process."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise unittest.SkipTest("starts a process of its own")


def in_child(work: Callable[[], Any], seconds: float) -> tuple[int, str]:
    """Starts the work in a fork; its process, and the file that will hold its answer."""
    descriptor, answer = tempfile.mkstemp(suffix=".json")
    os.close(descriptor)
    pid = os.fork()
    if pid:
        return pid, answer
    status = 1
    try:
        silent = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(silent, number)
        limit = int(seconds)
        resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))
        with open("/proc/self/statm", encoding="ascii") as file:
            most = int(file.read().split()[0]) * resource.getpagesize() + MORE_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        # Waiting takes no time of a processor.
        timer = threading.Timer(5 * seconds, lambda: os._exit(1))
        timer.daemon = True
        timer.start()
        subprocess.Popen = OwnProcess  # type: ignore[misc, assignment]
        with open(answer, "w", encoding="utf-8") as file:
            json.dump(work(), file)
        status = 0
    finally:
        os._exit(status)


def each_in_child(
    works: list[tuple[Callable[[], Any], float]], at_once: int, told: Callable[[int, Any], None]
) -> None:
    """`told` hears the number of each work that is done, and its answer: None where it ended before it had one."""
    running: dict[int, tuple[int, str]] = {}
    waiting = list(enumerate(works))[::-1]
    while waiting or running:
        while waiting and len(running) < at_once:
            number, (work, seconds) = waiting.pop()
            pid, answer = in_child(work, seconds)
            running[pid] = number, answer
        pid, _ = os.wait()
        number, answer = running.pop(pid)
        text = pathlib.Path(answer).read_text(encoding="utf-8")
        os.unlink(answer)
        try:
            told(number, json.loads(text))
        except ValueError:
            told(number, None)


def cases_of(suite: Any) -> list[Any]:
    if isinstance(suite, unittest.TestSuite):
        return [case for one in suite for case in cases_of(one)]
    return [suite]


def watch(module: str, files: set[str]) -> list[tuple[str, float, dict[str, list[int]]]]:
    """The tests of a file that were not left out, each with its seconds and the lines that it runs."""
    lines: dict[str, set[int]] = {}

    def in_file(frame: Any, event: str, _: Any) -> Any:
        if event == "line":
            lines.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
        return in_file

    def any_call(frame: Any, *_: Any) -> Any:
        return in_file if frame.f_code.co_filename in files else None

    test = TESTS / f"{module.replace('.', '/')}.py"
    used = _digest_of(
        [*sorted(PYTHON.glob("plimsoll*/**/*.py")), test, *map(pathlib.Path, sorted(files))]
    )
    kept = INSTALLED_AT.parent / f"{used}.json"
    if kept.exists():
        return json.loads(kept.read_text(encoding="utf-8"))
    found = []
    for case in cases_of(unittest.defaultTestLoader.loadTestsFromName(module)):
        if case.id() == SLOW:
            continue
        lines.clear()
        result = unittest.TestResult()
        began = time.process_time()
        threading.settrace(any_call)
        sys.settrace(any_call)
        case.run(result)
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        seconds = time.process_time() - began
        if not result.wasSuccessful():
            # It could tell nothing of a fault.
            found.append((case.id(), FAILS, {}))
        elif result.testsRun and not result.skipped:
            found.append((case.id(), seconds, {path: sorted(own) for path, own in lines.items()}))
    kept.write_text(json.dumps(found), encoding="utf-8")
    return found


def _digest_of(paths: list[pathlib.Path]) -> str:
    digest = hashlib.sha256(sys.version.encode())
    for path in paths:
        digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def noticed_by(fault: Fault, tests: list[str]) -> str:
    """The first test that fails with the fault; nothing where all pass."""
    path = str(PYTHON / fault.path)
    real = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: Any, name: str) -> Any:
        if loader.path == path:
            return compile(fault.source, path, "exec", dont_inherit=True)
        return real(loader, name)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
    for name in tests:
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromName(name).run(result)
        if not result.wasSuccessful():
            return name
    return ""


def tests_for(fault: Fault, seen: list[Seen], statements: dict[int, range]) -> list[Seen]:
    """The tests that run its statement; where that runs on import, those that run anything of its file."""
    path = str(PYTHON / fault.path)
    own = statements.get(fault.line)
    fitting = [
        one
        for one in seen
        if path in one.lines and (own is None or not one.lines[path].isdisjoint(own))
    ]
    taken, seconds = [], 0.0
    for one in sorted(fitting, key=lambda one: one.seconds):
        seconds += one.seconds
        if taken and seconds > MAX_SECONDS:
            break
        taken.append(one)
    return taken


def statements_in_functions(path: pathlib.Path) -> dict[int, range]:
    """For each line inside a function, the lines of its statement; of a compound one those of its head."""
    found: dict[int, range] = {}

    def note(statements: list[Any]) -> None:
        for one in statements:
            body = getattr(one, "body", None) or getattr(one, "cases", None)
            end = min(body[0].lineno, one.end_lineno + 1) if body else one.end_lineno + 1
            own = range(one.lineno, max(end, one.lineno + 1))
            found.update(dict.fromkeys(own, own))
            for part in ("body", "orelse", "finalbody"):
                note(getattr(one, part, []))
            for handler in getattr(one, "handlers", []):
                head = range(handler.lineno, handler.lineno + 1)
                found.update(dict.fromkeys(head, head))
                note(handler.body)

    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            note(node.body)
    return found


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("area", choices=AREAS)
    parser.add_argument("--sample", type=int, default=SAMPLE, help="so many of all; 0 for all")
    parser.add_argument("--seed", type=int, default=37)
    parser.add_argument("--at-once", type=int, default=2)
    parser.add_argument("--left", action="store_true", help="only what the last run left")
    parser.add_argument("--rows", default=str(ROWS), help="the file for the result")
    asked = parser.parse_args(arguments)
    install()
    patterns, left_out, test_patterns = AREAS[asked.area]
    found = [path for pattern in patterns for path in sorted(PYTHON.glob(pattern))]
    paths = [path for path in found if path.name not in left_out]
    all_operators = operators()
    places = [place for path in paths for place in places_of(path, all_operators)]
    faults = drawn(places, asked.sample, asked.seed, all_operators)
    sources = _digest_of(paths)
    before = _rows_in(asked.rows).get(asked.area, {})
    counted = Counter({how: before[how] for how in NOTICED} if asked.left else {})
    if asked.left:
        if before["sources"] != sources:
            sys.exit(f"{asked.area}: its code is another since the last run; leave out --left")
        left = {(one["file"], one["line"], one["becomes"]) for one in before["left"]}
        faults = [one for one in faults if (one.path, one.line, one.text) in left]
    print(f"{len(places)} faults in {len(paths)} files, {len(faults)} of them tried", flush=True)
    sys.path[:0] = [str(TESTS), str(TESTS.parent)]
    import torch

    torch.set_num_threads(1)
    seen = tests_seen(test_patterns, {str(path) for path in paths}, asked.at_once)
    print(f"{len(seen)} tests run lines of this area", flush=True)
    statements = {str(path.relative_to(PYTHON)): statements_in_functions(path) for path in paths}
    outcomes = outcomes_of(faults, seen, statements, asked.at_once)
    counts = counted + Counter(one["outcome"] for one in outcomes)
    score = round(100 * sum(counts[how] for how in NOTICED) / max(1, sum(counts.values())))
    row = {
        "tool": TOOL,
        "seed": asked.seed,
        "faults": len(places),
        "tried": sum(counts.values()),
        "score": score,
        "before": before.get("before", score),
        "sources": sources,
        **{how: counts[how] for how in (*NOTICED, "survived", "no test")},
        "left": sorted(
            (one for one in outcomes if one["outcome"] not in NOTICED),
            key=lambda one: (one["file"], one["line"], one["becomes"]),
        ),
    }
    rows = {**_rows_in(asked.rows), asked.area: row}
    os.makedirs(os.path.dirname(asked.rows), exist_ok=True)
    text = json.dumps(rows, indent=1, sort_keys=True)
    pathlib.Path(asked.rows).write_text(f"{text}\n", encoding="utf-8")
    print(f"{asked.area}: {score} of 100 ({dict(counts)})")
    return 0


def _rows_in(path: str) -> dict[str, Any]:
    """The rows of the last runs, by area."""
    file = pathlib.Path(path)
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def tests_seen(patterns: tuple[str, ...], files: set[str], at_once: int) -> list[Seen]:
    """The tests that run lines of these files."""
    modules = [
        ".".join(file.relative_to(TESTS).with_suffix("").parts)
        for pattern in patterns
        for file in sorted(TESTS.glob(pattern))
    ]
    seen: list[Seen] = []

    def take(number: int, answer: Any) -> None:
        if answer is None:
            print(f"{modules[number]} did not end", flush=True)
        for name, seconds, lines in answer or []:
            if seconds == FAILS:
                print(f"{name} fails without a fault", flush=True)
            elif lines:
                seen.append(Seen(name, seconds, {path: set(own) for path, own in lines.items()}))

    works = [(partial(watch, module, files), 900.0) for module in modules]
    each_in_child(works, at_once, take)
    return seen


def outcomes_of(
    faults: list[Fault],
    seen: list[Seen],
    statements: dict[str, dict[int, range]],
    at_once: int,
) -> list[dict[str, Any]]:
    works: list[tuple[Callable[[], Any], float]] = []
    tried: list[Fault] = []
    outcomes: list[dict[str, Any]] = []

    def note(fault: Fault, how: str) -> None:
        row = {"file": fault.path, "line": fault.line, "operator": fault.operator}
        outcomes.append({**row, "becomes": fault.text, "outcome": how})
        if how not in NOTICED:
            print(f"{how}: {fault.path}:{fault.line} {fault.operator}: {fault.text}", flush=True)

    for fault in faults:
        tests = tests_for(fault, seen, statements[fault.path])
        if not tests:
            note(fault, "no test")
            continue
        names = [one.name for one in tests]
        limit = TIMES * sum(one.seconds for one in tests) + SECONDS_MORE
        works.append((partial(noticed_by, fault, names), limit))
        tried.append(fault)

    def take(number: int, answer: Any) -> None:
        how = "killed" if answer else "timeout" if answer is None else "survived"
        note(tried[number], how)

    each_in_child(works, at_once, take)
    return outcomes


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
