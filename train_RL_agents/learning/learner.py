"""The learner: losses, gradients, optimiser, target and EMA copies of the weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.rmsprop import rmsprop

from marinenav_env.runtime.loop import Loop, stateless
from marinenav_env.stepping.reset_pool import restore
from marinenav_env.support.validation import ConfigError, is_count, is_number
from train_RL_agents.agents import Agent, Losses
from train_RL_agents.agents.base import LossFunction
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.learning.flat import FlatWeights
from train_RL_agents.learning.gradients import (
    HALVES,
    Gradients,
    compiled_gradients,
    gradients_of,
    in_half,
)
from train_RL_agents.learning.loss_scale import LossScale
from train_RL_agents.run.ranks import Ranks
from train_RL_agents.utils.device import resolve_precision

Updated = tuple[dict[str, Tensor], Tensor | None]
"""Scalars for the log, and priorities [B] if the agent gives them."""
RMSPROP: dict[str, Any] = {"alpha": 0.99, "eps": 1e-5}
"""Constants of RMSprop."""
BETAS, EPS = (0.9, 0.999), 1e-8
"""Constants of Adam."""
MOMENTS = {"adam": 2, "rmsprop": 1}
"""Numbers that an optimiser keeps of every weight."""


def joined(parts: list[Losses], counts: list[int]) -> Losses:
    """Return the losses of a batch from those of its parts.

    Args:
        parts: means over the rows of each part; ``priority`` row by row.
        counts: rows of each part.
    """
    if len(parts) == 1:
        return parts[0]
    shares = [count / sum(counts) for count in counts]
    return {
        name: torch.cat([each[name] for each in parts])
        if name == "priority"
        else torch.stack([each[name] * share for each, share in zip(parts, shares, strict=True)]).sum()
        for name in parts[0]
    }


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error says that there is no room for a tensor, on a GPU or on the CPU."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    said = str(error).lower()
    return "out of memory" in said or "can't allocate memory" in said


def cosine(progress: float, first: float, last: float) -> float:
    """Fall from first to last along half a cosine as progress goes from 0 to 1."""
    return last + 0.5 * (first - last) * (1.0 + math.cos(math.pi * min(progress, 1.0)))


class NoRoomError(ConfigError):
    """There is not enough memory for an update with a single transition at a time."""


class Learner:
    """Updates an agent from batches.

    An update is one function of tensors: losses, gradients, clipping, optimiser, target and EMA
    weights. On a GPU it is captured. When memory is short it takes its batch in parts.

    Args:
        agent: on its device, where it must stay: its weights become views of one tensor.
        config: of the run.
        generator: randomness of the updates, on the agent's device.
        ranks: the processes that gradients are averaged over; None for this one alone.
        log: prints messages about how updates are made.
        tau: share of the learned weights mixed into the target networks with every update; 0:
            only when ``update_targets`` is called.
        losses: what is minimised; by default the agent's own losses.
    """

    def __init__(
        self,
        agent: Agent[Any],
        config: TrainConfig[Any],
        generator: torch.Generator,
        ranks: Ranks | None = None,
        log: Callable[[str], None] = print,
        tau: float = 0.0,
        losses: LossFunction | None = None,
    ) -> None:
        self.agent, self._generator, self._log = agent, generator, log
        self._config = config
        self._settings = settings = config.trainer
        self.ema = copy.deepcopy(agent).requires_grad_(False)
        self._flat, target = FlatWeights(agent.networks), FlatWeights(agent.targets)
        self._weights = self._flat.weights
        self._averages = FlatWeights(self.ema.networks).weights
        self._target = target
        self.optimizer = make_optimizer(
            settings.optimizer,
            self._weights,
            settings.learning_rate,
            config.execution.fused_optimizer,
        )
        self._make_state()
        self.learning_rate, self.rate_factor = settings.learning_rate, 1.0
        # For generated code, in which a number would freeze.
        self._rate = torch.tensor(self.learning_rate, device=generator.device)
        device, losses = generator.device, losses or agent.loss
        self._precision = precision = resolve_precision(device, config.execution.precision)
        if precision in HALVES:
            losses = in_half(losses, device, HALVES[precision])
        self._scale = LossScale(device) if precision == "fp16" else None
        self._gradients: Gradients = gradients_of(agent, losses, self._flat)
        self._apply = self._apply_scaled if self._scale else self._apply_gradient
        self._traced = config.execution.compile
        self._unchecked: Gradients | None = None
        if self._traced:
            self._unchecked = self._gradients
            self._gradients = compiled_gradients(agent, losses, self._flat, device)
        self._apply = config.execution.function(self._apply, device, checks_all=False)
        self._ranks = ranks if ranks is not None and ranks.size > 1 else None
        if self._ranks:
            # Hosts that differ may have drawn other last bits from the same seed.
            self._ranks.copy_first([self._weights, self._target.weights, self._averages])
        self._one = torch.ones((), device=device)
        self.updates = 0
        self.batch_size = self.micro_batch = settings.batch_size
        """Transitions that gradients are computed of at once."""
        # On the device, as a number would freeze in a graph. In float64, for shares as by Python.
        self._made = torch.zeros((), dtype=torch.float64, device=device)
        self._tau = tau
        # Gradients that processes exchange are not captured.
        alone = self._ranks is None
        self._execution = config.execution if alone else replace(config.execution, capture=False)
        self._loops: list[Loop] = []
        self.update = self.updates_by(self.learn)
        """Makes a gradient step from a batch; see ``updates_by``."""

    def updates_by(self, step: Callable[..., Updated], *generators: torch.Generator) -> Callable[..., Updated]:
        """Return what makes updates by ``learn``, or a function around it; captured as a whole.

        Args:
            step: makes a gradient step.
            generators: that it draws from, beside the learner's.

        Returns:
            A function of the arguments of ``step``. It gives scalars for the log, and priorities
            [B] if the agent gives them; all on the device, and overwritten by the next update. It
            raises NoRoomError when memory is short even for one transition; weights are unchanged.
        """
        loop = self._execution.loop(
            stateless(step),
            (),
            self._generator.device,
            generators=[self._generator, *generators],
            compile=False,
            name="the update",
            log=self._log,
        )
        self._loops.append(loop)

        def update(*batch: Any) -> Updated:
            made: Updated = loop(*batch)
            self.updates += 1
            return made

        return update

    @property
    def micro_batches(self) -> int:
        """Return the parts that a batch is taken in."""
        return -(-self.batch_size // self.micro_batch)

    @property
    def captures(self) -> bool:
        """Return whether updates are captured as a CUDA graph."""
        return all(each.captures for each in self._loops)

    def mode(self) -> str:
        """Describe how updates are computed."""
        config, on_gpu = self._config.execution, self._generator.device.type == "cuda"
        shared = on_gpu and config.capture and self._ranks is not None
        words = {
            self._precision: True,
            "TF32": config.tf32 and on_gpu,
            "fused optimiser": config.fused_optimizer and not config.compile,
            "compiled": config.compile,
            "captured as a CUDA graph": self.captures,
            "not captured, since processes exchange gradients": shared,
            f"batches in {self.micro_batches} parts": self.micro_batches > 1,
        }
        return ", ".join(word for word, holds in words.items() if holds)

    def set_progress(self, progress: float) -> None:
        """Set the step size for this share of the run done."""
        settings = self._settings
        rate = cosine(progress, settings.learning_rate, settings.learning_rate_final)
        self._set_rate(self.rate_factor * rate)

    def _set_rate(self, rate: float) -> None:
        self.learning_rate = rate
        self._rate.fill_(rate)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate

    def learn(self, batch: Any) -> Updated:
        """Return the part of an update that may be captured."""
        # Once for the whole batch: parts of it get their parts of this.
        noise = self.agent.loss_noise(batch.size, self._generator)
        gradient, losses = self._differentiate(batch, noise)
        # Only from here on weights change. This takes less room than the losses have just left.
        norm = self._apply(gradient, self.optimizer.state[self._weights], self._rate)
        priority = losses.pop("priority", None)
        return losses | {"grad_norm": norm}, priority

    def _apply_gradient(self, gradient: Tensor, state: dict[str, Tensor], rate: Tensor) -> Tensor:
        """Clip the gradient, and move all weights; returns its norm before clipping.

        Args:
            gradient: [N]; is changed.
            state: of the optimiser.
            rate: its step size, for generated code.
        """
        norm = torch.linalg.vector_norm(gradient)
        # As torch.nn.utils.clip_grad_norm_.
        gradient.mul_((self._settings.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        if self._traced:
            traced_step(self._settings.optimizer, self._weights, gradient, state, rate)
        else:
            self._weights.grad = gradient
            self.optimizer.step()
        if self._tau:
            self.update_targets(self._tau)
        with torch.no_grad():
            self._averages.lerp_(self._weights, self._ema_share())
        return norm

    def _ema_share(self) -> Tensor:
        """Count an update; returns the share of its weights in their moving average."""
        made = self._made.add_(1.0)
        decay = (made / (made + 10.0)).clamp_max(self._settings.ema_decay)
        return (1.0 - decay).to(self._weights.dtype)

    def _apply_scaled(self, gradient: Tensor, state: dict[str, Tensor], rate: Tensor) -> Tensor:
        """``_apply_gradient`` for scaled losses, undone where gradients overflow."""
        assert self._scale is not None
        # Without targets, theirs is an empty tensor that may be on another device.
        targets = [self._target.weights] if self._target.weights.numel() else []
        moved = [self._weights, self._averages, *targets, *state.values()]
        before = [each.clone() for each in moved]
        with torch.no_grad():
            norm = self._apply_gradient(gradient / self._scale.factor, state, rate)
            return self._scale.undo(moved, before, norm)

    def _make_state(self) -> None:
        """Make what the optimiser keeps, if there is none yet, by a step without gradients."""
        if not self.optimizer.state[self._weights]:
            self._weights.grad = torch.zeros_like(self._weights)
            self.optimizer.step()
            self.optimizer.state[self._weights]["step"].zero_()
            self._weights.grad = None

    def _differentiate(self, batch: Any, noise: Any) -> tuple[Tensor, Losses]:
        """Return the gradient [N], in as many parts as memory requires; and the losses."""
        before = self.micro_batch
        while True:
            try:
                return self._accumulate(batch, noise)
            except (RuntimeError, MemoryError) as error:
                # A capture that lacks memory is given up by who captures, and ranks that do not
                # take their batches in equally many parts would wait for each other for ever.
                if self._capturing() or self._ranks or not out_of_memory(error):
                    raise
                self._take_smaller_parts(batch.size, before, error)
            # Not before the exception is gone, which holds on to what was computed.
            self._free()

    def _capturing(self) -> bool:
        """Return whether kernels are recorded just now, and not run."""
        on_gpu = self._generator.device.type == "cuda"
        return on_gpu and torch.cuda.is_current_stream_capturing()

    def _accumulate(self, batch: Any, noise: Any) -> tuple[Tensor, Losses]:
        """Add up the gradients of all parts of a batch."""
        self._flat.require_in_place()
        factor = self._scale.factor if self._scale else self._one
        size, parts, counts = batch.size, [], []
        gradient: Tensor | None = None
        for start in range(0, size, self.micro_batch):
            rows = slice(start, min(start + self.micro_batch, size))
            counts.append(rows.stop - rows.start)
            whole = counts[-1] == size
            part = batch if whole else batch.part(rows)
            own = noise if whole else self.agent.part_of_noise(noise, rows)
            self._check_once(part, own)
            share = factor if whole else factor * (counts[-1] / size)
            found, losses = self._gradients(part, own, share)
            gradient = found if gradient is None else gradient.add_(found)
            parts.append(losses)
        assert gradient is not None
        if self._ranks:
            self._ranks.average(gradient)
        return gradient, joined(parts, counts)

    def _free(self) -> None:
        """Give back what a failed attempt took."""
        if self._generator.device.type == "cuda":
            torch.cuda.empty_cache()

    def _check_once(self, batch: Any, noise: Any) -> None:
        """Check by the first row of the first batch that losses reach all parameters.

        Generated code would give those that no loss reaches a gradient of zero.
        """
        if self._unchecked is not None:
            row = slice(0, 1)
            self._unchecked(batch.part(row), self.agent.part_of_noise(noise, row), self._one)
            self._unchecked = None

    def _take_smaller_parts(self, size: int, before: int, error: BaseException) -> None:
        """Halve the parts that a batch of a size is taken in; they were ``before`` at first."""
        now = min(self.micro_batch, size)
        if now == 1:
            # Restore the configured size for the resumed run.
            self.micro_batch = before
            raise NoRoomError(
                f"trainer.batch_size={self.batch_size}: out of memory even with one "
                "transition at a time; make room on the device, or trainer.num_envs or "
                "trainer.buffer_size smaller in a new run"
            ) from error
        self.micro_batch = (now + 1) // 2
        for each in self._loops:
            each.reset()
        self._log(
            f"out of memory: updates go on with {self.micro_batch:,} of {size:,} transitions at "
            "once, and the same gradients"
        )

    def update_targets(self, tau: float) -> None:
        """Move the target networks towards the learned ones, by a share of the distance."""
        with torch.no_grad():
            for name in self.agent.targets:
                self._target.of(name).lerp_(self._flat.of(name), tau)

    def squared_weights(self) -> Tensor:
        """Return the sum of the squared learned and EMA weights, a scalar on the device."""
        return self._flat.weights.square().sum() + self._averages.square().sum()

    def copy_buffers(self) -> None:
        """Give the EMA the buffers of the agent, such as running statistics."""
        for ema, online in zip(self.ema.buffers(), self.agent.buffers(), strict=True):
            ema.copy_(online)

    def state_dict(self) -> dict[str, Any]:
        """Return the weights (learned, target, EMA), optimiser, counter and parts."""
        return {
            "agent": self.agent.state_dict(),
            "averaged": self.ema.state_dict(),
            "optimizer": self._flat.split(self.optimizer.state_dict()),
            "updates": self.updates,
            "micro_batch": self.micro_batch,
        } | ({"scale": self._scale.state_dict()} if self._scale else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore them; how the optimiser computes stays as it is here."""
        restore(self.agent.state_dict(), state["agent"])
        restore(self.ema.state_dict(), state["averaged"])
        self.updates, given = state["updates"], state["optimizer"]
        # Checkpoints of before there were parts lack it.
        parts, rate = state.get("micro_batch", self.micro_batch), given["param_groups"][0]["lr"]
        rate = float(rate) if isinstance(rate, Tensor) else rate  # host: loading a checkpoint
        if not (is_count(self.updates) and is_count(parts) and parts and is_number(rate)):
            raise ValueError("counters of updates that are none")
        self._made.fill_(self.updates)
        if self.updates or given["state"]:  # there was none before the first update
            whole = self.optimizer.state_dict()
            own = self._flat.split(whole)
            restore(own["state"], given["state"])
            self.optimizer.load_state_dict(whole | {"state": self._flat.join(own)["state"]})
        self._set_rate(rate)
        if self._scale and "scale" in state:
            self._scale.load_state_dict(state["scale"])
        self.micro_batch = parts
        for each in self._loops:
            each.reset()


def make_optimizer(name: str, weights: Tensor, rate: float, fused: bool) -> torch.optim.Optimizer:
    """Return an optimiser, ready for a CUDA graph on a GPU: with everything that varies in tensors there.

    Args:
        name: adam, or rmsprop with the constants of A2C (Mnih et al. 2016).
        weights: what it steps.
        rate: step size.
        fused: Adam as one kernel.
    """
    on_gpu = weights.device.type == "cuda"
    options: dict[str, Any] = {"capturable": True} if on_gpu else {}
    options["lr"] = torch.tensor(rate, device=weights.device) if on_gpu else rate
    if name == "rmsprop":
        return torch.optim.RMSprop([weights], foreach=True, **RMSPROP, **options)
    kind: dict[str, Any] = {"fused": True} if fused else {"foreach": True}
    return torch.optim.Adam([weights], betas=BETAS, eps=EPS, **kind, **options)


def traced_step(name: str, weights: Tensor, gradient: Tensor, state: dict[str, Tensor], rate: Tensor) -> None:
    """The step of an optimiser of make_optimizer, as part of generated code.

    ``Optimizer.step`` itself cannot be traced into one graph.

    Args:
        name: see make_optimizer.
        weights: what it steps.
        gradient: of the weights.
        state: of the optimiser.
        rate: step size.
    """
    own = {key: [value] for key, value in state.items()}
    options: dict[str, Any] = {"lr": rate, "weight_decay": 0.0, "maximize": False}
    options["capturable"] = True
    with torch.no_grad():
        if name == "rmsprop":
            rmsprop(
                [weights],
                [gradient],
                own["square_avg"],
                [],
                [],
                own["step"],
                momentum=0.0,
                centered=False,
                foreach=True,
                **RMSPROP,
                **options,
            )
        else:
            adam(
                [weights],
                [gradient],
                own["exp_avg"],
                own["exp_avg_sq"],
                [],
                own["step"],
                amsgrad=False,
                beta1=BETAS[0],
                beta2=BETAS[1],
                eps=EPS,
                foreach=False,
                **options,
            )
