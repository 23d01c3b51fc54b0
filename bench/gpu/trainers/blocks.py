"""Blocks of steps with and without something, in turn: their ratio, and the noise of the machine beside it."""

import statistics


def beside_neighbours(values, distance):
    """Each value over the mean of those `distance` before and after it."""
    inner = range(distance, len(values) - distance)
    return [2 * values[i] / (values[i - distance] + values[i + distance]) for i in inner]


def quartiles(values):
    low, middle, high = statistics.quantiles(values, n=4)
    return {"low": low, "median": middle, "high": high}


def compared(blocks):
    """`blocks` hold seconds of steps; even ones were made without, odd ones with."""
    means = [statistics.fmean(block) for block in blocks if block]
    middles = [statistics.median(block) for block in blocks if block]
    return {
        "withoutMilliseconds": 1000 * statistics.median(means[::2]),
        "withMilliseconds": 1000 * statistics.median(means[1::2]),
        "ratio": quartiles(beside_neighbours(means, 1)[::2]),
        "noise": quartiles(beside_neighbours(means[::2], 1)),
        "ratioOfMedians": quartiles(beside_neighbours(middles, 1)[::2]),
        "noiseOfMedians": quartiles(beside_neighbours(middles[::2], 1)),
        "blockMilliseconds": [1000 * one for one in means],
    }


def sentence(name, found):
    ratio, noise = found["ratioOfMedians"], found["noiseOfMedians"]
    return (
        f"{name}: {found['withoutMilliseconds']:.2f} ms without, {found['withMilliseconds']:.2f} ms with; "
        f"ratio {ratio['median']:.4f} ({ratio['low']:.4f} to {ratio['high']:.4f}), of without to without "
        f"{noise['median']:.4f} ({noise['low']:.4f} to {noise['high']:.4f})"
    )
