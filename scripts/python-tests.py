"""Runs the tests in python/tests: `python-tests.py [--all | --rest] [--seed N] [--output FILE] [MODULE...]`.

Without an option it runs the first tier, with `--rest` the second, and with `--all` both. Each file runs in a process
of its own, three at a time, and its tests in a random order; the seed is printed and can be given again. FILE gets
the counts as JSON: `passed`, `failed`, `leftOut` (each test with its reason), `otherTier` (tests of the tier that did
not run), `files` (name, seconds, seconds of a processor) and `seed`.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import pathlib
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import unittest
from concurrent.futures import ThreadPoolExecutor, as_completed

ROOT = pathlib.Path(__file__).resolve().parent.parent
TESTS = ROOT / "python" / "tests"
sys.path.insert(0, str(TESTS))

# Those of the other runner; the programs under test refuse variables that they do not know.
for variable in ("PLIMSOLL_TEST_SEED", "PLIMSOLL_TEST_TIER"):
    os.environ.pop(variable, None)

import warm  # noqa: E402 - found in the folder of the tests

# Many tests wait for other processes: three files at a time even on two cores.
PROCESSES = 3
# A file that takes longer hangs: what each of its threads waits for is printed, and its process ends.
LONGEST_SECONDS = 1800
# How many of the slowest files are named at the end.
NAMED = 10

# Packages, modules, classes and tests of the second tier: they look further at what the first tier looks at once. A
# test that guards work that was done, or what others may see, is not among them.
SECOND_TIER = (
    # Programs of others, and long ones.
    "tracing.kinds.test_public_programs",
    "tracing.kinds.test_generated_texts",
    "tracing.loops.test_loops.Loops",
    # Compiled models, and programs whose steps differ in kind.
    "tracing.kinds.test_memory.CudaGraphs",
    "tracing.kinds.test_attention.FlexAttention",
    "tracing.kinds.test_generated_texts.Layerdrop",
    "tracing.libraries.test_compiled_programs.ProgramsWithComingSizes",
    "tracing.libraries.test_compiled_programs.CompiledGraphs",
    "tracing.libraries.test_compiled_programs.EqualGraphs",
    "tracing.libraries.test_compiled_programs.EqualKernels",
    "tracing.libraries.test_quicker_compiling.BackwardBeside",
    "tracing.loops.test_loaders.BatchesOfAGenerator",
    "tracing.loops.test_loaders.TrainerSteps",
    # Recovery of long loops; that nothing is lost is seen in the first tier by shorter ones.
    "keeping.test_keeping.KeepingBelow",
    "sdk.test_failures.Compiled",
    # Several estimates, each of which starts a tracer.
    "sdk.test_models.Estimates.test_a_model_of_transformers_that_is_here_is_asked_about_as_its_config_is",
    "sdk.test_failures.Workers",
    # Models on many cards.
    "sharding",
    # Trainers, each run of which is a process that imports its libraries.
    "trainers.test_window_failures.InjectedFailures",
    "trainers.test_lightning",
    "trainers.test_loops.Programs",
    "trainers.test_loops.InLoops.test_an_unchanged_program_under_a_real_limit",
    "trainers.test_libraries",
    # Processes that import everything by themselves.
    "test_runner.Traces",
    "tracing.libraries.test_libraries.LaterParts",
    "tracing.libraries.test_quicker_compiling.OpHashes",
    "tracing.test_warm.Traces",
)
# Those of the above that the first tier runs all the same.
SMOKE = (
    "keeping.test_keeping.KeepingBelow.test_batches_of_a_program_that_keeps_its_results",
    "tracing.kinds.test_attention.FlexAttention.test_it_asks_for_and_gives_back_what_it_does_on_the_card_in_the_same_order",
    "tracing.libraries.test_compiled_programs.EqualGraphs.test_other_blocks_are_lowered_for_themselves",
    "sharding.test_sharded.Sharding.test_fsdp2_gathers_each_layer_on_a_stream_of_its_own",
    "tracing.kinds.test_generated_texts.GeneratedTexts.test_a_text_runs_to_its_last_length_and_its_tokens_can_be_read",
    "tracing.libraries.test_libraries.LaterParts.test_a_step_of_an_optimizer_loads_no_compiler",
    "tracing.loops.test_loops.Loops.test_what_a_long_loop_does_seldom_and_what_follows_it_are_counted",
    "trainers.test_libraries.LeftAlone.test_a_step_that_hands_on_all_it_is_given_is_known",
    "trainers.test_lightning.Lightning.test_all_are_recovered_bit_for_bit",
)
# The longest files: they are cut into so many parts, which begin before all others.
PARTS = {
    "sdk.test_supervised": 3,
    "sharding.test_sharded": 3,
    "tracing.kinds.test_generated_texts": 2,
    "tracing.kinds.test_public_programs": 4,
    "tracing.test_programs": 3,
    "trainers.test_libraries": 3,
}


class Counted(unittest.TextTestResult):
    """A test counts once, however many of its subtests fail."""

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        self.passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.passed += 1

    def counts(self):
        troubles = [*(test for test, _ in self.failures + self.errors), *self.unexpectedSuccesses]
        # A subtest belongs to a test; an error outside of tests stands for itself.
        failed = {getattr(test, "test_case", test).id() for test in troubles}
        left_out = [f"{_id(test)}: {why}" for test, why in self.skipped]
        return {"passed": self.passed, "failed": len(failed), "leftOut": left_out}


def _id(test):
    """Also of the test that stands for a file that cannot be imported."""
    return re.sub(r"^unittest\.loader\.\w+\.", "", test.id())


def _is_in(test, names):
    return any(test == name or test.startswith(f"{name}.") for name in names)


def is_second(test):
    """Whether the test with this id belongs to the second tier."""
    return _is_in(test, SECOND_TIER) and not _is_in(test, SMOKE)


def _tests_of(suite):
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from _tests_of(one)
        else:
            yield one


def _unit(test):
    """Tests that stay together: those of a class whose preparation they share."""
    kind = type(test)
    own = kind.setUpClass.__func__ is not unittest.TestCase.setUpClass.__func__
    return kind.__qualname__ if own else test.id()


def chosen(name, tier, part, parts):
    """The tests of one part of a file that belong to the tier, and how many of that part do not."""
    tests = list(_tests_of(unittest.defaultTestLoader.loadTestsFromName(name)))
    units = sorted({_unit(test) for test in tests})
    mine = set(units[part::parts])
    tests = [test for test in tests if _unit(test) in mine]
    wanted = [
        test for test in tests if tier in ("all", "rest" if is_second(_id(test)) else "first")
    ]
    return wanted, len(tests) - len(wanted)


def shuffled(tests, draw):
    """In another order; tests of one class still follow one another, so that it is prepared once."""
    by_class = {}
    for test in tests:
        by_class.setdefault(type(test), []).append(test)
    classes = list(by_class.values())
    draw.shuffle(classes)
    for one in classes:
        draw.shuffle(one)
    return [test for one in classes for test in one]


def run_part(folder, name, part, parts, tier, seed):
    """The counts of one part of a file of tests."""
    sys.path[:0] = [folder, warm.PACKAGE]
    faulthandler.dump_traceback_later(LONGEST_SECONDS, exit=True)
    try:
        tests, other = chosen(name, tier, part, parts)
    except unittest.SkipTest as why:
        left_out = [] if part else [f"{name}: {why}"]
        return {"passed": 0, "failed": 0, "leftOut": left_out, "otherTier": 0}
    tests = shuffled(tests, random.Random(f"{seed} {name} {part}"))
    runner = unittest.TextTestRunner(sys.stderr, resultclass=Counted, warnings="ignore")
    counts = runner.run(unittest.TestSuite(tests)).counts()
    faulthandler.cancel_dump_traceback_later()
    return {**counts, "otherTier": other}


def _processor_seconds():
    used = [resource.getrusage(one) for one in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used) + warm.Popen.processor_seconds


def part_apart(folder, name, part, parts, tier, seed):
    """The counts of one part, run in a process of its own, what it printed, and its seconds."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as own:
        result = os.path.join(own, "counts.json")
        asked = json.dumps([folder, name, part, parts, tier, seed])
        words = [__file__, "--output", result, "--part", asked]
        done = warm.run(
            [sys.executable, "-W", "ignore", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        try:
            with open(result, encoding="utf-8") as file:
                counts = json.load(file)
        except (OSError, ValueError):
            counts = {"passed": 0, "failed": 1, "leftOut": [], "otherTier": 0}
            done.stdout += (
                f"{name}: its process ended with {done.returncode}, and without counts.\n"
            )
    return counts, done.stdout, time.monotonic() - began


def modules(folder):
    files = sorted(pathlib.Path(folder).rglob("test_*.py"))
    return [".".join(file.relative_to(folder).with_suffix("").parts) for file in files]


def in_order(names, tier, seed):
    """Each part of each file, the longest files first, otherwise as the seed says."""
    parts = []
    for name in names:
        # Of a file of the second tier the first runs little.
        count = 1 if tier == "first" and is_second(name) else PARTS.get(name, 1)
        parts += [(name, part, count) for part in range(count)]
    random.Random(seed).shuffle(parts)
    return sorted(parts, key=lambda one: one[0] not in PARTS)


def run_all(folder, names, tier, seed):
    total = {"passed": 0, "failed": 0, "leftOut": [], "otherTier": 0}
    seconds, processor = {}, {}
    print(f"The order is that of --seed {seed}.", flush=True)
    warm.started()
    with ThreadPoolExecutor(PROCESSES) as pool:
        running = {
            pool.submit(part_apart, folder, *part, tier, seed): part[0]
            for part in in_order(names, tier, seed)
        }
        for done in as_completed(running):
            counts, printed, took = done.result()
            name = running[done]
            seconds[name] = seconds.get(name, 0) + took
            used = counts.pop("processorSeconds", 0)
            processor[name] = processor.get(name, 0) + used
            if counts["failed"]:
                print(printed)
            said = f"{counts['passed']} passed"
            for what, count in (("FAILED", counts["failed"]), ("left out", len(counts["leftOut"]))):
                said += f", {count} {what}" if count else ""
            print(f"{name}: {said}, {took:.0f} s, {used:.1f} s of a processor", flush=True)
            for key, value in counts.items():
                total[key] += value
    files = [
        {
            "name": name,
            "seconds": round(seconds[name], 1),
            "processorSeconds": round(processor[name], 1),
        }
        for name in sorted(seconds, key=seconds.get, reverse=True)
    ]
    return {**total, "files": files, "seed": seed}


def main(arguments=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--output")
    parser.add_argument("modules", nargs="*")
    tier = parser.add_mutually_exclusive_group()
    tier.add_argument("--all", dest="tier", action="store_const", const="all", default="first")
    tier.add_argument("--rest", dest="tier", action="store_const", const="rest")
    tier.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--tests", default=str(TESTS), help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    options = parser.parse_intermixed_args(arguments)
    if options.part is not None:
        counts = run_part(*json.loads(options.part))
        counts["processorSeconds"] = _processor_seconds()
    else:
        names = options.modules or modules(options.tests)
        counts = run_all(options.tests, names, options.tier, options.seed)
        slowest = ", ".join(
            f"{one['name']} {one['seconds']:.0f} s" for one in counts["files"][:NAMED]
        )
        print(f"The slowest files: {slowest}.")
        if counts["otherTier"]:
            print(f"Not run: {counts['otherTier']} tests of the other tier; --all runs both.")
    if options.output is not None:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(counts, file)
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
