"""A search space, and a trainer that takes no time for its trials."""

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


class FakeTrainer:
    """Makes two evaluations; the better the larger the batch."""

    interrupted = False
    made: list

    def __init__(self, run, callbacks, **display):
        self.run, self.callbacks, self.rows = run, callbacks, []
        self.env_steps, self.stopped = 0, False
        self.made.append(run)

    @property
    def finished(self):
        return self.env_steps == 160

    def stop(self):
        self.stopped = True

    def train(self):
        while not (self.finished or self.stopped):
            self.env_steps += 40
            if self.env_steps % 80 == 0:
                self.rows.append({"success_rate": self.run.config.trainer.batch_size / 10})
            for callback in self.callbacks:
                callback(self)
        self.stopped = self.stopped or self.interrupted
