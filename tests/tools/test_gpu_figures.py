"""The script that takes the figures of a GPU, on a CPU with tiny sizes."""

import argparse
import json
import sys
import time

import pytest

from tools import gpu_figures
from tools.gpu_figures import RESULT, Step, main, run, steps


def options(tmp_path, *words):
    return gpu_figures.parse(["--out", str(tmp_path / "out"), "--device", "cpu", *words])


def python(code):
    return [sys.executable, "-c", code]


def test_steps_are_one_process_each(tmp_path):
    found = {step.name: step for step in steps(options(tmp_path), tmp_path)}
    names = ["world", "collect", "update", "tests", "growth", "loop", "training"]
    assert [name for name in found if not name.endswith("bf16")] == names
    assert found["world"].command[-2:] == ["--envs", "16384"]
    assert sum(step.limit for name, step in found.items() if name != "training") < 20 * 60


def test_a_part_is_measured_and_kept(tmp_path):
    argv = ["--out", str(tmp_path), "--device", "cpu", "--tiny", "--only", "update"]
    assert main(argv) == 0
    found = json.loads((tmp_path / RESULT).read_text())["steps"]
    assert {name: each["status"] for name, each in found.items()} == {"update": "ok"}
    assert [row["batch"] for row in found["update"]["result"]["rows"]] == [4, 8]


@pytest.mark.slow
def test_all_steps(tmp_path):
    argv = ["--out", str(tmp_path), "--device", "cpu", "--tiny", "--minutes", "5"]
    main(argv)
    found = json.loads((tmp_path / RESULT).read_text())["steps"]
    assert all(found[name]["status"] == "ok" for name in ("world", "collect", "update", "growth",
                                                          "loop"))  # fmt: skip
    assert [each["of"] for each in found["growth"]["result"]["growth"]] == ["world", "replay"]
    assert found["training"]["status"].startswith("ok")
    assert found["training"]["result"][0]["env_steps"] == "200"


def test_failures_do_not_lose_the_others(tmp_path, monkeypatch, capsys):
    left = tmp_path / "left.json"
    slow = f"open({str(left)!r}, 'w').write('[1]'); import time; time.sleep(60)"
    listed = [
        Step("bad", python("print('oh'); raise SystemExit(3)"), 20.0),
        Step("slow", python(slow), 4.0, lambda: json.loads(left.read_text())),
        Step("good", python("print('fine')"), 20.0),
    ]
    monkeypatch.setattr(gpu_figures, "steps", lambda args, work: listed)
    assert main(["--out", str(tmp_path)]) == 1
    found = json.loads((tmp_path / RESULT).read_text())["steps"]
    statuses = [each["status"] for each in found.values()]
    assert statuses == ["failed with status 3", "cut off", "ok"]
    assert found["slow"]["result"] == [1]
    assert found["good"]["printed"] == "fine\n"
    assert "oh" in capsys.readouterr().out


def test_packages_brought_along_are_found_after_the_program(tmp_path, monkeypatch):
    (tmp_path / "brought.py").write_text("")
    (tmp_path / "marinenav_env.py").write_text("raise SystemExit(3)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code = "import marinenav_env, brought; print(marinenav_env.__file__)"
    printed = run(Step("one", python(code), 60.0), 60.0, tmp_path / "log")["printed"]
    assert printed == f"{gpu_figures.ROOT}/marinenav_env/__init__.py\n"


def test_a_step_ends_when_it_is_enough(tmp_path):
    step = Step("long", python("import time; time.sleep(60)"), 60.0, enough=lambda: True)
    began = time.monotonic()
    assert run(step, 60.0, tmp_path / "log")["status"] == "ok, ended when it was enough"
    assert time.monotonic() - began < 20.0


def test_no_step_starts_when_there_is_no_time(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_figures, "steps", lambda args, work: [Step("one", [], 1.0)])
    assert main(["--out", str(tmp_path), "--minutes", "0"]) == 0
    found = json.loads((tmp_path / RESULT).read_text())["steps"]
    assert found == {"one": {"status": "no time left"}}


def test_training_is_enough_at_the_wanted_success(tmp_path):
    args = options(tmp_path, "--tiny")
    step = gpu_figures.training(args, tmp_path)
    assert not step.enough()
    folder = tmp_path / "runs" / "training_1" / "seed_0"
    folder.mkdir(parents=True)
    head = "env_steps,train_time,wall_time,success_rate\n"
    (folder / "evaluations.csv").write_text(head + "100,1.5,2.5,0.5\n200,2.5,3.5,\n")
    assert not step.enough()
    (folder / "evaluations.csv").write_text(head + "100,1.5,2.5,0.5\n200,2.5,3.5,0.8\n")
    assert step.enough()
    assert step.read()[1] == {"env_steps": "200", "train_time": "2.5", "wall_time": "3.5",
                              "success_rate": "0.8"}  # fmt: skip


def test_the_switch_is_found_by_its_values(monkeypatch):
    from typing import Literal

    from train_RL_agents.config import reading as config_file
    from train_RL_agents.config.reading import Setting

    def listed(*settings):
        monkeypatch.setattr(config_file, "settings_of", lambda config: iter(settings))
        return gpu_figures.bf16_switch()

    plain = Setting("trainer.tau", float, 0.1)
    assert listed(plain) == ""
    assert listed(plain, Setting("trainer.bf16", bool, False)) == "trainer.bf16=true"
    chosen = Setting("trainer.precision", Literal["float32", "bf16"], "float32")
    assert listed(plain, chosen) == "trainer.precision=bf16"
    step = gpu_figures.bench(argparse.Namespace(device="cpu", tiny=True), gpu_figures.ROOT,
                             "update", 9.0, switch="trainer.precision=bf16")  # fmt: skip
    assert (step.name, step.command[-1]) == ("update_bf16", "trainer.precision=bf16")
