"""Learner: losses, gradients, optimiser, target and EMA copies of the weights."""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.rmsprop import rmsprop

from marinenav_env.runtime.compiling import compile_function
from marinenav_env.runtime.loop import Loop, as_stateless_step
from marinenav_env.support.tensors import restore_tensors
from marinenav_env.support.validation import ConfigError, is_nonnegative_int, is_number
from train_RL_agents.agents import Agent, Losses
from train_RL_agents.agents.batches import LossFunction
from train_RL_agents.config.schema import TrainConfig
from train_RL_agents.learning.flat import FlatWeights
from train_RL_agents.learning.gradients import (
    HALF_DTYPES,
    GradientFunction,
    in_half_precision,
    make_compiled_gradient_function,
    make_gradient_function,
)
from train_RL_agents.learning.loss_scale import LossScale
from train_RL_agents.networks.encoders import is_scale_buffer
from train_RL_agents.run.checkpoint import LoadedPolicy, load_weights
from train_RL_agents.run.ranks import Ranks
from train_RL_agents.utils.device import resolve_precision

UpdateResult = tuple[dict[str, Tensor], Tensor | None]
"""Result of an update: scalars for the log, and priorities [B] if the agent computes them."""
RMSPROP_OPTIONS: dict[str, Any] = {"alpha": 0.99, "eps": 1e-5, "momentum": 0.0, "centered": False, "foreach": True}
"""Keyword arguments of RMSprop; smoothing constant and epsilon are those of A2C (Mnih et al. 2016)."""
ADAM_OPTIONS: dict[str, Any] = {"beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "amsgrad": False}
"""Keyword arguments of Adam: decay rates of the two moments, and epsilon."""
MOMENTS = {"adam": ("exp_avg", "exp_avg_sq"), "rmsprop": ("square_avg",)}
"""Names of the moments that an optimiser keeps per weight, by name of the optimiser."""


def merge_losses(parts: list[Losses], counts: list[int]) -> Losses:
    """Return the losses of a batch from those of its micro-batches, means weighted by their numbers of samples."""
    if len(parts) == 1:
        return parts[0]
    shares = [count / sum(counts) for count in counts]
    return {
        name: torch.cat([part[name] for part in parts])
        if name == "priority"
        else torch.stack([part[name] * share for part, share in zip(parts, shares, strict=True)]).sum()
        for name in parts[0]
    }


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that memory of a GPU or of the host does not suffice."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    message = str(error).lower()
    return "out of memory" in message or "can't allocate memory" in message


def cosine_schedule(progress: float, first: float, last: float) -> float:
    """Return the value, at a share ``progress`` of a run, of a schedule from first to last along half a cosine."""
    return last + 0.5 * (first - last) * (1.0 + math.cos(math.pi * min(progress, 1.0)))


class NotEnoughMemoryError(ConfigError):
    """Raised when memory does not suffice even for an update with micro-batches of one transition."""


class Learner:
    """Learner that updates the weights of an agent from batches, and keeps target and EMA copies of them.

    An update is one function of tensors: losses, gradients, clipping, optimiser, target and EMA weights. On a GPU it is
    captured as a CUDA graph. When memory is short, a batch is processed in micro-batches. The agent must stay on its
    device, because its weights become views of one tensor. Gradients are averaged over ``ranks``. With ``tau`` 0, the
    target networks change only when ``update_targets`` is called.
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
        self._ema_weights = FlatWeights(self.ema.networks).weights
        self._target = target
        self.optimizer_state = {"step": torch.zeros((), device=generator.device)} | {
            name: torch.zeros_like(self._weights) for name in MOMENTS[settings.optimizer]
        }
        """Number of steps of the optimiser, a scalar, and its moments [N] by name."""
        self.learning_rate = settings.learning_rate
        """Current learning rate."""
        # The learning rate is a tensor, because compiled code treats numbers as constants.
        self._rate = torch.tensor(self.learning_rate, device=generator.device)
        device, losses = generator.device, losses or agent.loss
        self._precision = precision = resolve_precision(device, config.trainer.precision)
        if precision in HALF_DTYPES:
            losses = in_half_precision(losses, device, HALF_DTYPES[precision])
        self._scale = LossScale(device) if precision == "fp16" else None
        self._gradients: GradientFunction = make_gradient_function(agent, losses, self._flat)
        self._apply = self._apply_scaled if self._scale else self._apply_gradient
        self._is_compiled = config.execution.compile
        self._is_traced = self._is_compiled or device.type == "cuda"
        self._unchecked_gradients: GradientFunction | None = None
        if self._is_compiled:
            self._unchecked_gradients = self._gradients
            self._gradients = make_compiled_gradient_function(agent, losses, self._flat, device)
            self._apply = compile_function(self._apply, device, keep_all_guards=False)
        self._ranks = ranks if ranks is not None and ranks.size > 1 else None
        if self._ranks:
            # Different hosts may draw values that differ in the last bits from the same seed.
            self._ranks.broadcast_tensors([self._weights, self._target.weights, self._ema_weights])
        self._unit_factor = torch.ones((), device=device)
        self.updates = 0
        """Number of updates so far."""
        self.batch_size = self.micro_batch_size = settings.batch_size
        """Number of samples of a batch and of a micro-batch, whose gradients are computed together."""
        # On the device, because graphs treat numbers as constants; in float64, for the same EMA shares as with Python
        # numbers.
        self._update_count = torch.zeros((), dtype=torch.float64, device=device)
        self._tau = tau
        # The exchange of gradients between processes is not captured.
        alone = self._ranks is None
        self._execution = config.execution if alone else replace(config.execution, capture=False)
        self._loops: list[Loop] = []
        self.update = self.make_update(self.learn)
        """Function that updates all weights from a batch; see ``make_update``."""

    def make_update(
        self, step: Callable[..., UpdateResult], *generators: torch.Generator
    ) -> Callable[..., UpdateResult]:
        """Return a function that makes an update by calling ``step``, all of which a CUDA graph may capture.

        The next update overwrites its results. It raises NotEnoughMemoryError, with unchanged weights, when memory is
        short even for one transition.
        """
        loop = self._execution.make_loop(
            as_stateless_step(step),
            (),
            self._generator.device,
            generators=[self._generator, *generators],
            compile=False,
            name="the update",
            log=self._log,
        )
        self._loops.append(loop)

        def update(*batch: Any) -> UpdateResult:
            updated: UpdateResult = loop(*batch)
            self.updates += 1
            return updated

        return update

    @property
    def micro_batches(self) -> int:
        """Return the number of micro-batches of a batch."""
        return -(-self.batch_size // self.micro_batch_size)

    @property
    def captures(self) -> bool:
        """Return whether all updates are captured as CUDA graphs."""
        return all(loop.captures for loop in self._loops)

    def describe(self) -> str:
        """Return a text that says how updates are computed: precision, compilation, capture and micro-batches."""
        config, settings = self._config.execution, self._settings
        on_gpu = self._generator.device.type == "cuda"
        shared = on_gpu and config.capture and self._ranks is not None
        features = {
            self._precision: True,
            "TF32": settings.tf32 and on_gpu,
            "fused optimiser": settings.fused_optimizer and not config.compile and settings.optimizer == "adam",
            "compiled": config.compile,
            "captured as a CUDA graph": self.captures,
            "not captured, since processes exchange gradients": shared,
            f"batches in {self.micro_batches} parts": self.micro_batches > 1,
        }
        return ", ".join(feature for feature, applies in features.items() if applies)

    def set_progress(self, progress: float) -> None:
        """Set the learning rate for a share ``progress`` of the run."""
        settings = self._settings
        self._set_rate(cosine_schedule(progress, settings.learning_rate, settings.learning_rate_final))

    def _set_rate(self, rate: float) -> None:
        self.learning_rate = rate
        self._rate.fill_(rate)

    def learn(self, batch: Any) -> UpdateResult:
        """Update all weights from a batch, in operations that a CUDA graph may capture; see ``UpdateResult``."""
        # Drawn once for the whole batch, and then split among the micro-batches.
        noise = self.agent.loss_noise(batch.size, self._generator)
        gradient, losses = self._differentiate(batch, noise)
        # Weights change only from here on; this needs less memory than the losses have just released.
        norm = self._apply(gradient, self.optimizer_state, self._rate if self._is_traced else self.learning_rate)
        priority = losses.pop("priority", None)
        return losses | {"grad_norm": norm}, priority

    def _apply_gradient(self, gradient: Tensor, state: dict[str, Tensor], rate: Tensor | float) -> Tensor:
        """Clip the gradient [N], in place, and update all weights; return the norm before clipping."""
        # State and rate are arguments, because compiled code treats attributes as constants.
        norm = torch.linalg.vector_norm(gradient)
        # As in torch.nn.utils.clip_grad_norm_.
        gradient.mul_((self._settings.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        fused = self._settings.fused_optimizer and not self._is_compiled
        step_optimizer(self._settings.optimizer, self._weights, gradient, state, rate, fused, self._is_traced)
        if self._tau:
            self.update_targets(self._tau)
        with torch.no_grad():
            self._ema_weights.lerp_(self._weights, self._ema_share())
        return norm

    def _ema_share(self) -> Tensor:
        """Count an update, and return the share with which its weights enter the EMA, a scalar in (0, 1]."""
        count = self._update_count.add_(1.0)
        decay = (count / (count + 10.0)).clamp_max(self._settings.ema_decay)
        return (1.0 - decay).to(self._weights.dtype)

    def _apply_scaled(self, gradient: Tensor, state: dict[str, Tensor], rate: Tensor | float) -> Tensor:
        """Update all weights like ``_apply_gradient`` from a scaled gradient; undo the update if it overflows."""
        assert self._scale is not None
        # Without targets their weights are an empty tensor that may be on another device.
        targets = [self._target.weights] if self._target.weights.numel() else []
        tensors = [self._weights, self._ema_weights, *targets, *state.values()]
        before = [tensor.clone() for tensor in tensors]
        with torch.no_grad():
            norm = self._apply_gradient(gradient / self._scale.factor, state, rate)
            return self._scale.undo_if_not_finite(tensors, before, norm)

    def _differentiate(self, batch: Any, noise: Any) -> tuple[Tensor, Losses]:
        """Return the gradient [N] and the losses of a batch, in micro-batches that are halved while memory is short."""
        before = self.micro_batch_size
        while True:
            try:
                return self._accumulate(batch, noise)
            except (RuntimeError, MemoryError) as error:
                # A capture that lacks memory is abandoned by the loop, and ranks with different numbers of
                # micro-batches would wait for each other for ever.
                is_capturing = self._generator.device.type == "cuda" and torch.cuda.is_current_stream_capturing()
                if is_capturing or self._ranks or not is_out_of_memory(error):
                    raise
                self._halve_micro_batches(batch.size, before, error)
            # Only after the exception is released, since it keeps the computed tensors alive.
            torch.cuda.empty_cache()  # does nothing in a process that has not used a GPU

    def _accumulate(self, batch: Any, noise: Any) -> tuple[Tensor, Losses]:
        """Return the gradient [N] of a batch, computed in micro-batches and averaged over the ranks, and the losses."""
        self._flat.require_in_place()
        factor = self._scale.factor if self._scale else self._unit_factor
        size, parts, counts = batch.size, [], []
        gradient: Tensor | None = None
        for start in range(0, size, self.micro_batch_size):
            rows = slice(start, min(start + self.micro_batch_size, size))
            counts.append(rows.stop - rows.start)
            whole = counts[-1] == size
            part = batch if whole else batch.part(rows)
            part_noise = noise if whole else self.agent.part_of_noise(noise, rows)
            self._check_once(part, part_noise)
            share = factor if whole else factor * (counts[-1] / size)
            part_gradient, losses = self._gradients(part, part_noise, share)
            gradient = part_gradient if gradient is None else gradient.add_(part_gradient)
            parts.append(losses)
        assert gradient is not None
        if self._ranks:
            self._ranks.average_tensor(gradient)
        return gradient, merge_losses(parts, counts)

    def _check_once(self, batch: Any, noise: Any) -> None:
        """Check with a first sample that every parameter gets a gradient; compiled code would give it zeros."""
        if self._unchecked_gradients is not None:
            row = slice(0, 1)
            self._unchecked_gradients(batch.part(row), self.agent.part_of_noise(noise, row), self._unit_factor)
            self._unchecked_gradients = None

    def _halve_micro_batches(self, size: int, before: int, error: BaseException) -> None:
        """Halve the size of micro-batches, ``before`` at the start of the batch; raise NotEnoughMemoryError at 1."""
        current = min(self.micro_batch_size, size)
        if current == 1:
            # A resumed run starts with the size from before this batch.
            self.micro_batch_size = before
            raise NotEnoughMemoryError(
                f"trainer.batch_size={self.batch_size}: out of memory even with one "
                "transition at a time; make room on the device, or trainer.num_envs or "
                "trainer.buffer_size smaller in a new run"
            ) from error
        self.micro_batch_size = (current + 1) // 2
        for loop in self._loops:
            loop.reset()
        self._log(
            f"out of memory: updates go on with {self.micro_batch_size:,} of {size:,} transitions at "
            "once, and the same gradients"
        )

    def update_targets(self, tau: float) -> None:
        """Move the target networks towards the learned ones by a share of the difference."""
        with torch.no_grad():
            for name in self.agent.targets:
                self._target.network_weights(name).lerp_(self._flat.network_weights(name), tau)

    def squared_weights(self) -> Tensor:
        """Return the sum of the squared learned and EMA weights, a scalar on the device."""
        return self._flat.weights.square().sum() + self._ema_weights.square().sum()

    def start_from(self, policy: LoadedPolicy) -> None:
        """Load the weights of a policy, which may be another boat's: observations keep the scales of this one."""
        weights = policy.agent.networks.state_dict()
        for agent in (self.agent, self.ema):
            named = agent.networks.state_dict().items()
            own = {name: value for name, value in named if agent.follows_from_config(name)}
            try:
                load_weights(agent, weights | own, policy.path)
            except ConfigError as error:
                before = policy.config.agent_type
                hint = f": a policy of {before}, for --agent {before}" if before != self._config.agent_type else ""
                raise ConfigError(f"{error}{hint}") from error

    def state_dict(self) -> dict[str, Any]:
        """Return ``agent`` (with targets), ``ema``, ``optimizer``, ``updates``, ``micro_batch`` and any ``scale``."""
        copies = {name: value.clone() for name, value in self.optimizer_state.items()}
        return {
            "agent": self.agent.state_dict(),
            "ema": self.ema.state_dict(),
            "optimizer": {"state": self._flat.optimizer_views(copies), "param_groups": [{"lr": self.learning_rate}]},
            "updates": self.updates,
            "micro_batch": self.micro_batch_size,
        } | ({"scale": self._scale.state_dict()} if self._scale else {})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``; of the optimiser's options, only the learning rate is restored."""
        current = self.agent.state_dict()
        scales = {name: value.clone() for name, value in current.items() if is_scale_buffer(name)}
        restore_tensors(current, state["agent"])
        if not all(torch.allclose(current[name], value) for name, value in scales.items()):
            raise ValueError("scales of observations that are not those of this boat")
        restore_tensors(self.ema.state_dict(), state["ema"])
        self.updates, saved = state["updates"], state["optimizer"]
        parts, rate = state["micro_batch"], saved["param_groups"][0]["lr"]
        rate = float(rate) if isinstance(rate, Tensor) else rate  # host: loading a checkpoint
        if not (is_nonnegative_int(self.updates) and is_nonnegative_int(parts) and parts and is_number(rate)):
            raise ValueError("counters of updates that are none")
        self._update_count.fill_(self.updates)
        restore_tensors(self._flat.optimizer_views(self.optimizer_state), saved["state"])
        self._set_rate(rate)
        if self._scale:
            self._scale.load_state_dict(state["scale"])
        self.micro_batch_size = parts
        for loop in self._loops:
            loop.reset()


def step_optimizer(
    name: str,
    weights: Tensor,
    gradient: Tensor,
    state: dict[str, Tensor],
    rate: Tensor | float,
    fused: bool,
    is_traced: bool,
) -> None:
    """Make a step of adam, or rmsprop with the constants of A2C, in place; it reads nothing on the host if traced.

    ``state`` has ``step`` and the moments (``MOMENTS``). ``torch.optim.Optimizer.step``, which calls the same
    functions, cannot be compiled into one graph.
    """
    steps = [state["step"]]
    options: dict[str, Any] = {"lr": rate, "weight_decay": 0.0, "maximize": False, "capturable": is_traced}
    with torch.no_grad():
        if name == "rmsprop":
            options |= RMSPROP_OPTIONS
            rmsprop([weights], [gradient], [state["square_avg"]], [], [], steps, **options)
        else:
            options |= ADAM_OPTIONS | {"fused": fused, "foreach": not (fused or torch.compiler.is_compiling())}
            adam([weights], [gradient], [state["exp_avg"]], [state["exp_avg_sq"]], [], steps, **options)
