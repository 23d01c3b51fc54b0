"""All that the caching allocator is asked for in a few measured cases, in order, with its stacks.

    python3 bench/gpu/record_events.py fresh OUTPUT_FOLDER ID [ID ...] [--configs FOLDER]

One gzipped file a case, in the form of the set `events` of bench/truth: from the first parameter to the end of
step 3, with marks between the phases; the peaks count from the mark `ready`.
"""

import argparse
import gc
import subprocess
import sys

from measure_cases import build, run_steps
from recording import Recording
from truth import cases_of, with_folders

STEPS = 3


def record(case, options):
    import torch

    recording = Recording(case)
    made = build(case, options)
    recording.mark("built")
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    recording.mark("ready")
    run_steps(case, made, STEPS)
    recording.mark("end")
    result = recording.save(options.output)
    print(case["id"], result["peak_allocated"], result["peak_reserved"], len(result["events"]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cases")
    parser.add_argument("output")
    parser.add_argument("ids", nargs="+")
    parser.add_argument("--configs", help="those of bench/truth/cases as a rule")
    parser.add_argument("--scripts", help="those of bench/truth/cases as a rule")
    options = with_folders(parser.parse_args())
    cases = {case["id"]: case for case in cases_of(options.cases)}
    if len(options.ids) == 1:
        record(cases[options.ids[0]], options)
        return
    command = [sys.executable, __file__, options.cases, options.output]
    folders = ["--configs", options.configs, "--scripts", options.scripts]
    running = [subprocess.Popen([*command, one, *folders]) for one in options.ids]
    sys.exit(max(process.wait() for process in running))


if __name__ == "__main__":
    main()
