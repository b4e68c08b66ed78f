"""Angles and random numbers in Triton, in its interpreter, in a process of its own."""

import json
import math
from typing import Any

import pytest
import torch

triton = pytest.importorskip("triton")
import triton.language as tl  # noqa: E402

from marinenav_env.kernels import triton_math  # noqa: E402
from marinenav_env.runtime import philox  # noqa: E402
from tests.marinenav_env.helpers import CPU  # noqa: E402
from tests.marinenav_env.triton_interpreter import interpreted  # noqa: E402

MODULE = "tests.marinenav_env.kernels.test_triton_math"


@triton.jit
def angles(x, y, out, COUNT: tl.constexpr):  # type: ignore[no-untyped-def]
    """Angles of pairs of numbers."""
    own = tl.arange(0, COUNT)
    first, second = tl.load(x + own), tl.load(y + own)
    tl.store(out + own, triton_math.atan2(second, first))
    tl.store(out + COUNT + own, triton_math.asin(tl.clamp(second, -1.0, 1.0)))
    tl.store(out + 2 * COUNT + own, triton_math.wrap_to_pi(7.0 * second))


@triton.jit
def random(seed, environment, step, words, numbers, COUNT: tl.constexpr):  # type: ignore[no-untyped-def]
    """Words of the third call of each environment, normal numbers and uniform ones of them."""
    own = tl.arange(0, COUNT)
    a, b, c, d = triton_math.philox_words((seed, environment, step, own), own * 0 + 2, 5)
    triton_math.store_vector(words, own, COUNT, own >= 0, (a, b, c, d))
    first, second = triton_math.normal(a, b)
    triton_math.store_vector(numbers, own, COUNT, own >= 0, (first, second, triton_math.uniform(c)))


def compare_random() -> dict[str, object]:
    """Random numbers against those of ``philox``."""
    count = 256
    source = philox.RandomSource.from_seed(2**63 + 2**31 + 9, count, CPU)
    source = source._replace(environment=source.environment + 2**32 - count, purpose=1)
    source = source._replace(step=2**32 - 1 - source.environment % 7)
    words = torch.empty(4, count, dtype=torch.int64)
    numbers = torch.empty(3, count)
    random[(1,)](source.seed, source.environment, source.step, words, numbers, count)
    drawn = source.words(3)
    a, b, c, _ = (word[2] for word in drawn)
    wanted = torch.stack((*philox.normal(a, b, torch.float32), philox.uniform(c, torch.float32)))
    return {
        "words": bool((words == torch.stack([word[2] for word in drawn])).all()),
        "normal": float((numbers - wanted)[:2].abs().max()),
        "uniform": torch.equal(numbers[2], wanted[2]),
    }


def compare_angles() -> list[float]:
    """The largest differences of angles from those of torch in float64, and the largest angle."""
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
    return [*difference.abs().amax(-1).tolist(), float(out[2].abs().max())]


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    results: dict[str, Any] = interpreted(MODULE)
    return results


@pytest.mark.slow
def test_angles_are_those_of_torch(found: dict[str, Any]) -> None:
    atan2, asin, wrapped, largest = found["angles"]
    assert atan2 < 4e-7 and asin < 4e-6 and wrapped < 4e-6
    assert largest <= math.pi + 1e-6


@pytest.mark.slow
def test_random_numbers_are_those_of_torch(found: dict[str, Any]) -> None:
    """Words and uniform numbers exactly, normal ones to rounding."""
    found = found["random"]
    assert found["words"] and found["uniform"]
    assert found["normal"] < 4e-6


if __name__ == "__main__":
    print(json.dumps({"angles": compare_angles(), "random": compare_random()}))
