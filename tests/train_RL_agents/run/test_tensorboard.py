"""What a run shows in TensorBoard, as TensorBoard reads it."""

from types import SimpleNamespace

import pytest
from tensorboard.backend.event_processing import data_provider, plugin_event_multiplexer
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.context import RequestContext
from tensorboard.plugins.hparams.backend_context import Context
from torch.utils.tensorboard.writer import SummaryWriter

from tests.train_RL_agents.tiny_runs import new_run
from train_RL_agents.run.tags import TAG_DESCRIPTIONS, TOP_METRICS, top_scalars
from train_RL_agents.run.tensorboard import read_scalars


def test_metrics_of_training_come_first(tmp_path):
    run = new_run(tmp_path)
    metrics = {"charts/SPS": 1.0, "train/episode_return": 2.0, "train/episodes": 3.0}
    run.writer.log(metrics | top_scalars("Training", {"episode_return": 2.0, "episodes": 3.0}), 8)
    run.writer.close()
    events = EventAccumulator(str(run.path)).Reload()
    first = min(events.Tags()["scalars"])
    assert (first, events.Scalars(first)[0].value) == ("Training/1_episode_return", 2.0)
    assert events.SummaryMetadata(first).summary_description == TAG_DESCRIPTIONS["Training/*"]


def test_entries_that_a_resumed_run_lost_are_no_values(tmp_path):
    for purged, steps in ((None, (1, 2, 3, 4)), (3, (3,))):
        with SummaryWriter(str(tmp_path), purge_step=purged) as writer:
            for step in steps:
                writer.add_scalar("a", step, step)
    assert read_scalars(tmp_path, "a") == {1: 1.0, 2: 2.0, 3: 3.0}


def test_the_settings_are_among_the_texts(tmp_path):
    run = new_run(tmp_path, "trainer.gamma=0.9", seed=3)
    run.writer.heading = ["DQN on cpu"]
    run.writer.log({"a": 1.0}, 8)
    run.writer.close()
    events = EventAccumulator(str(run.path)).Reload()
    texts = {
        tag: events.Tensors(tag)[-1].tensor_proto.string_val[0].decode()
        for tag in events.Tags()["tensors"]
        if tag.startswith("settings")
    }
    changed, everything = texts.values()
    assert list(texts) == ["settings/changed/text_summary", "settings/complete/text_summary"]
    assert changed.startswith("DQN on cpu\n\nSettings that differ")
    for line in ("| trainer.gamma | `0.9` |", "| seed | `3` |"):
        assert line in changed
        assert line in everything
    assert "| trainer.learning_rate |" not in changed
    assert "| trainer.learning_rate | `0.0005` |" in everything


@pytest.fixture(scope="module")
def hparams_page(tmp_path_factory):
    """What the HPARAMS tab is given of runs of two agents."""
    folder = tmp_path_factory.mktemp("two")
    for seed, agent in enumerate(("DQN", "IQN")):
        run = new_run(folder, f"agent_type={agent}", f"trainer.batch_size={8 + 8 * seed}", seed=seed)
        results = {f"Result/{number}_{name}": 0.5 + seed for number, name in enumerate(TOP_METRICS["Result"], 1)}
        run.writer.log({"charts/SPS": 1.0, **results}, 8)
        run.writer.close()
    runs = plugin_event_multiplexer.EventMultiplexer().AddRunsFromDirectory(str(folder)).Reload()
    provider = data_provider.MultiplexerDataProvider(runs, str(folder))
    context = Context(SimpleNamespace(data_provider=provider))
    content = context.hparams_metadata(RequestContext(), "")
    return context.experiment_from_metadata(RequestContext(), "", True, content, [])


def test_settings_that_differ_between_runs_are_the_first_columns(hparams_page):
    differ = [info.name for info in hparams_page.hparam_infos if info.differs]
    assert differ[0] == "agent" and {"seed", "trainer.batch_size"} <= {*differ}
    assert [info.name for info in hparams_page.hparam_infos[: len(differ)]] == differ


def test_the_results_are_the_first_metrics(hparams_page):
    shown = [info.name.tag for info in hparams_page.metric_infos][:5]  # TensorBoard ticks so many
    assert shown == [f"Result/{number}_{name}" for number, name in enumerate(TOP_METRICS["Result"], 1)]
