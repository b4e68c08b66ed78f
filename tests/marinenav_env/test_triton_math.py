"""Angles in Triton, in its interpreter, in a process of its own."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from marinenav_env import triton_math  # noqa: E402

ROOT, MODULE = Path(__file__).parents[2], "tests.marinenav_env.test_triton_math"


@triton.jit
def angles(x, y, out, COUNT: tl.constexpr):  # type: ignore[no-untyped-def]
    """Angles of pairs of numbers."""
    own = tl.arange(0, COUNT)
    first, second = tl.load(x + own), tl.load(y + own)
    tl.store(out + own, triton_math.atan2(second, first))
    tl.store(out + COUNT + own, triton_math.asin(tl.clamp(second, -1.0, 1.0)))
    tl.store(out + 2 * COUNT + own, triton_math.wrap_to_pi(7.0 * second))


def main() -> None:
    """Write angles, and the largest differences from those of torch in float64."""
    count = 4096
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2, count, generator=generator)
    edges = torch.tensor([(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0), (2.0, 2.0), (0.0, 0.0)])
    x[: len(edges)], y[: len(edges)] = edges.T
    out = torch.empty(3, count)
    angles[(1,)](x, y, out, count)
    x, y = x.double(), y.double()
    turned = torch.remainder(7.0 * y + math.pi, 2.0 * math.pi) - math.pi
    expected = torch.stack((torch.atan2(y, x), y.clamp(-1.0, 1.0).asin(), turned))
    difference = (out - expected + math.pi) % (2.0 * math.pi) - math.pi
    print(json.dumps([*difference.abs().amax(-1).tolist(), float(out[2].abs().max())]))


@pytest.mark.slow
def test_angles_are_those_of_torch() -> None:
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-m", MODULE], cwd=ROOT, env=environment,
                          capture_output=True, text=True)  # fmt: skip
    assert done.returncode == 0, done.stderr
    atan2, asin, wrapped, largest = json.loads(done.stdout)
    assert atan2 < 4e-7 and asin < 4e-6 and wrapped < 4e-6
    assert largest <= math.pi + 1e-6


if __name__ == "__main__":
    main()
