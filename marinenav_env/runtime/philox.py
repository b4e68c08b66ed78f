"""Counter-based random numbers by Philox 4x32-10.

A number is a function of a key and a counter (Salmon et al., Parallel Random Numbers: As Easy as 1,
2, 3, 2011; also in Random123, JAX and Triton). No generator is advanced, so numbers can be drawn
within compiled code, for any part of a batch and on any device. Raw words and uniform numbers are bit-identical on all
devices, and normal numbers are equal up to rounding.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from marinenav_env.runtime.layout import env_first

Words = tuple[Tensor, Tensor, Tensor, Tensor]
"""Four words of 32 bits, stored as int64."""

_WORD_MASK = 0xFFFFFFFF
_NUM_ROUNDS = 10
_MULTIPLIERS = 0xD2511F53 - 2**32, 0xCD9E8D57 - 2**32
"""Multipliers of Philox minus 2^32, so that their products with words of 32 bits fit into int64."""
_KEY_INCREMENTS = 0x9E3779B9, 0xBB67AE85
"""Numbers that are added to the two words of the key after every round."""
_WORD_STREAM, _NORMAL_STREAM, _UNIFORM_STREAM, _STREAMS_PER_PURPOSE = 1, 2, 3, 4
"""Stream ids (``RandomSource.kind``) of raw words, normal and uniform numbers, and the number of ids per purpose. The
ids are above 0, so that no counter coincides with one of torch's CUDA generator."""
_UNIFORM_BITS = 24
"""Number of random bits of a uniform number, as many as float32 represents exactly."""


def philox(counter: Words, key: tuple[Tensor, Tensor]) -> Words:
    """Return the four random words of Philox 4x32-10 for a counter and a key, int64 words of 32 bits that broadcast."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_NUM_ROUNDS):
        p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        # This drops the bits of c1, c3 and the key above the lower 32.
        high0, high1 = (p0 >> 32) + c0, (p1 >> 32) + c2
        c0, c1, c2, c3 = (high1 ^ c1 ^ k0) & _WORD_MASK, p1, (high0 ^ c3 ^ k1) & _WORD_MASK, p0
        k0, k1 = k0 + _KEY_INCREMENTS[0], k1 + _KEY_INCREMENTS[1]
    return c0, c1 & _WORD_MASK, c2, c3 & _WORD_MASK


def uniform(word: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert words of 32 bits (int64, any shape) to numbers uniform on [0, 1), multiples of 2^-24."""
    return (word >> (32 - _UNIFORM_BITS)).to(dtype) * 2.0**-_UNIFORM_BITS


def normal(first: Tensor, second: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Convert two words of 32 bits (int64, any shape) to two independent standard normal numbers by Box-Muller."""
    # The offset avoids log(0); the largest magnitude is 5.8.
    length = torch.sqrt(-2.0 * torch.log(uniform(first, dtype) + 2.0**-_UNIFORM_BITS))
    angle = (2.0 * math.pi) * uniform(second, dtype)
    return length * torch.cos(angle), length * torch.sin(angle)


class RandomSource(NamedTuple):
    """Counter-based random source of a batch of environments in one step.

    The numbers of an environment depend on how many are drawn per environment, but not on other environments.
    """

    seed: Tensor
    """[2] int64, lower and upper 32 bits of the seed."""
    environment: Tensor
    """[E] int64 in [0, 2^32), numbers of the environments."""
    step: Tensor
    """[] int64, step of all environments, or [E] int64, step of each environment; below 2^32."""
    purpose: int = 0
    """Number of the use of the random numbers, such as 0 for perception; each purpose has independent numbers."""
    kind: int = _WORD_STREAM
    """Stream id, 1 for raw words, 2 for normal and 3 for uniform numbers, which are independent of each other."""

    @classmethod
    def from_seed(cls, seed: int, environments: int, device: torch.device, first: int = 0) -> "RandomSource":
        """Return the source for step 0 of several environments, which are numbered from ``first`` on."""
        zeros = torch.zeros(3, dtype=torch.int64, device=device)
        numbers = torch.arange(first, first + environments, device=device)
        source = cls(zeros[:2], numbers, zeros[2])
        source.reseed(seed)
        return source

    def reseed(self, seed: int) -> None:
        """Set the seed, an int below 2^64, and go back to step 0, in place."""
        self.seed[0].fill_(seed & _WORD_MASK)
        self.seed[1].fill_(seed >> 32 & _WORD_MASK)
        self.step.zero_()

    def take_step(self) -> "RandomSource":
        """Return a copy of the source for the current step, and advance this source to the next step in place."""
        taken = self._replace(step=self.step.expand_as(self.environment).clone())
        self.step.add_(1)
        return taken

    def tensors_to_save(self) -> dict[str, Tensor]:
        """Return the tensors to save in a checkpoint: ``seed`` [2] and ``step`` [] or [E]."""
        return {"seed": self.seed, "step": self.step}

    def with_purpose(self, purpose: int) -> "RandomSource":
        """Return the source of independent random numbers for another purpose."""
        return self._replace(purpose=purpose)

    def select(self, select: Tensor | slice) -> "RandomSource":
        """Return the source of some environments, given as indices [n], a mask [E] or a slice of the batch."""
        step = self.step[select] if self.step.ndim else self.step
        return self._replace(environment=self.environment[select], step=step)

    def randint(self, size: int) -> Tensor:
        """Draw one integer per environment, [E] int64, uniform in [0, size), for sizes up to 2^31."""
        return self.words(1)[0][0] * size >> 32

    def words(self, *shape: int) -> Words:
        """Draw four words of 32 bits, each a tensor ``[*shape, E]`` int64."""
        count, device = math.prod(shape), self.environment.device
        number = torch.arange(count, device=device).view(*shape, 1)
        # Add a 0 that is read from memory, because code compiled for a GPU multiplies mere indices in 32 bits.
        number = number + (self.seed[0] >> 32)
        use = torch.full_like(number, _STREAMS_PER_PURPOSE * self.purpose + self.kind)
        counter = number, self.environment, self.step, use
        return philox(counter, (self.seed[0], self.seed[1]))

    def normal(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Draw standard normal numbers of shape [E, ...]; a further call returns the same numbers."""
        a, b, c, d = self._replace(kind=_NORMAL_STREAM).words(_num_calls(shape))
        return _join_numbers((*normal(a, b, dtype), *normal(c, d, dtype)), shape)

    def uniform(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Draw numbers uniform on [0, 1), of shape [E, ...]; a further call returns the same numbers."""
        words = self._replace(kind=_UNIFORM_STREAM).words(_num_calls(shape))
        return _join_numbers([uniform(word, dtype) for word in words], shape)


def _num_calls(shape: Sequence[int]) -> int:
    """Return the number of Philox calls per environment for numbers of shape [E, ...], four numbers per call."""
    return -(-math.prod(shape[1:]) // 4)


def _join_numbers(parts: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """Join tensors [n, E] into one of shape [E, ...] with environments adjacent in memory; surplus is dropped."""
    return env_first(torch.cat(list(parts))[: math.prod(shape[1:])].view(*reversed(shape)))
