"""A search space, and trials that take no time."""

import json

SPACE = {
    "trainer.learning_rate": {"low": 1e-4, "high": 1e-3, "log": True},
    "trainer.batch_size": {"low": 4, "high": 8},
    "agent.features": ["raw", "geometric"],
    "training_schedule.timesteps": [[0, 0], [0, 80]],
}


def write_space(path, content=SPACE):
    (path / "space.json").write_text(json.dumps(content))
    return path / "space.json"


class FakeRunner:
    """Makes trials as Runner does, one after another; each is the better the larger its batch."""

    def __init__(self, runs, at_once=1, quiet=False):
        self.runs, self.made = runs, []

    def run(self):
        for run in self.runs:
            self.made.append(finish(run))

    def print_failures(self, advice):
        return 0


def finish(run, status=0, error="", diverged=False):
    """Make the two evaluations of a trial, fewer if it is pruned, and end it; its configuration."""
    success = run.folder.config.trainer.batch_size / 10
    stops = any(run.on_evaluation(env_steps, success) for env_steps in (80, 160))
    run.on_end(130 if stops else status, error, diverged)
    return run.folder.config


def make_trial(search, *end):
    """Make the next trial of a search; its configuration."""
    return finish(next(search.runs(["marinenav"])), *end)
