"""How many vectors an effective rank needs: that of isotropic Gaussians, whose true value is their width.

    python benchmarks/sample_size.py [--json FILE]

Each cell is the mean over draws of what conoscope reads off n vectors of width d, divided by d.
"""

import argparse
import json
import sys
from pathlib import Path

import torch

from conoscope.sums.numeric import entropy_rank
from conoscope.sums.statistics import Gram

WIDTHS = (32, 64, 384, 768)
TIMES = (0.5, 1, 2, 4, 8, 16, 32, 64)


def shares(width: int, count: int, draws: int) -> tuple[float, float]:
    """Effective rank and participation ratio of `count` Gaussian vectors, divided by their width."""
    draw = torch.Generator().manual_seed(0)
    ranks, ratios = [], []
    for _ in range(draws):
        s = Gram.of(torch.randn(count, width, dtype=torch.float64, generator=draw)).spectrum
        energy = s.square()
        ranks.append(float(entropy_rank(s)) / width)
        ratios.append(float(energy.sum().square() / energy.square().sum()) / width)
    return sum(ranks) / draws, sum(ratios) / draws


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the table there as well")
    arguments = parser.parse_args()
    rows = []
    print(f"{'n / d':>6} " + " ".join(f"{f'd = {width}':>16}" for width in WIDTHS))
    for times in TIMES:
        found = {width: shares(width, int(times * width), 10 if width < 100 else 2) for width in WIDTHS}
        print(f"{times:6g} " + " ".join(f"{rank:8.4f}{ratio:8.4f}" for rank, ratio in found.values()))
        rows += [
            {"times": times, "width": width, "effective_rank": rank, "participation_ratio": ratio}
            for width, (rank, ratio) in found.items()
        ]
    if arguments.json:
        command = " ".join(["python", "benchmarks/sample_size.py", *sys.argv[1:]])
        arguments.json.write_text(json.dumps({"command": command, "rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
