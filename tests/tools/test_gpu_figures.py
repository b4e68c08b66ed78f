"""The script that takes the figures of a GPU, on a CPU with tiny sizes."""

import json
import sys
import time
from types import SimpleNamespace

import pytest

from tools import gpu_figures
from tools.gpu_figures import RESULT_NAME, Step, all_steps, main, run_step


def options(tmp_path, *words):
    return gpu_figures.parse_arguments(["--out", str(tmp_path / "out"), "--device", "cpu", *words])


def python(code):
    return [sys.executable, "-c", code]


def test_steps_are_one_process_each(tmp_path):
    found = {step.name: step for step in all_steps(options(tmp_path))}
    names = list(found)
    assert names[:6] == [
        "cache",
        "world captured",
        "collect captured",
        "update captured",
        "update captured trainer.precision=bf16",
        "loop captured",
    ]
    assert names[-2:] == ["update compiled eager", "training"]
    assert "tests/train_RL_agents/collecting/test_graphs.py" in names
    assert found["world captured"].command[-4:] == ["--envs", "16384", "--modes", "captured"]
    half = found["update captured trainer.precision=bf16"]
    assert half.command[-1] == "trainer.precision=bf16"
    assert all(step.time_limit <= 8 * 60 for name, step in found.items() if name != "training")


def test_both_kernels_of_the_world_are_measured_where_there_are_two(tmp_path):
    other = "world captured execution.kernel=triton"
    assert other in [step.name for step in all_steps(options(tmp_path, "--device", "cuda"))]
    assert other not in [step.name for step in all_steps(options(tmp_path))]


def test_code_is_generated_for_all_parts_at_once(tmp_path, monkeypatch):
    begun = []

    def start(command, cwd):
        begun.append(command)
        return SimpleNamespace(wait=lambda: int("world" in command))

    monkeypatch.setattr(gpu_figures.subprocess, "Popen", start)
    command = next(iter(all_steps(options(tmp_path)))).command
    assert main(command[2:]) == 1  # one of them fails
    parts = [each[each.index("--parts") + 1] for each in begun]
    assert parts == ["world", "collect", "update", "update", "loop", "growth"]
    assert all(str(tmp_path / "out" / "cache") in each[each.index("--json") + 1] for each in begun)


NAME = "update captured trainer.precision=bf16"


@pytest.mark.slow
def test_a_part_is_measured_and_kept(tmp_path):
    argv = ["--out", str(tmp_path), "--device", "cpu", "--tiny", "--only", "update captured e"]
    assert main(argv) == 0
    found = json.loads((tmp_path / RESULT_NAME).read_text())["steps"]
    assert {name: each["status"] for name, each in found.items()} == {NAME: "ok"}
    assert [row["batch"] for row in found[NAME]["result"]["rows"]] == [4, 8]


@pytest.mark.slow
def test_all_steps(tmp_path):
    argv = ["--out", str(tmp_path), "--device", "cpu", "--tiny", "--minutes", "5"]
    main(argv)
    found = json.loads((tmp_path / RESULT_NAME).read_text())["steps"]
    assert all(each["status"].startswith("ok") for name, each in found.items() if not name.startswith("tests/"))
    parts = [each["of"] for each in found["growth captured"]["result"]["growth"]]
    assert parts == ["world", "replay"]
    assert found["training"]["result"][0]["env_steps"] == "200"


def test_another_call_does_what_is_left(tmp_path, monkeypatch, capsys):
    listed = [Step("good", python("pass"), 20.0), Step("bad", python("raise SystemExit(3)"), 20.0)]
    monkeypatch.setattr(gpu_figures, "all_steps", lambda args: listed)
    words = ["--out", str(tmp_path), "--device", "cpu"]
    assert main(words) == 1
    listed[1] = Step("bad", python("pass"), 20.0)
    capsys.readouterr()
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == ["bad"]
    found = json.loads((tmp_path / RESULT_NAME).read_text())["steps"]
    assert [each["status"] for each in found.values()] == ["ok", "ok"]
    with pytest.raises(SystemExit, match="figures of another --device or size"):
        main([*words, "--tiny"])


def test_failures_do_not_lose_the_others(tmp_path, monkeypatch, capsys):
    left = tmp_path / "left.json"
    slow = f"open({str(left)!r}, 'w').write('[1]'); import time; time.sleep(60)"
    listed = [
        Step("bad", python("print('oh'); raise SystemExit(3)"), 20.0),
        Step("slow", python(slow), 4.0, lambda: json.loads(left.read_text())),
        Step("good", python("print('fine')"), 20.0),
    ]
    monkeypatch.setattr(gpu_figures, "all_steps", lambda args: listed)
    assert main(["--out", str(tmp_path)]) == 1
    found = json.loads((tmp_path / RESULT_NAME).read_text())["steps"]
    statuses = [each["status"] for each in found.values()]
    assert statuses == ["failed with status 3", "cut off", "ok"]
    assert found["slow"]["result"] == [1]
    assert found["good"]["printed"] == "fine\n"
    assert "oh" in capsys.readouterr().out


@pytest.mark.slow
def test_packages_brought_along_are_found_after_the_program(tmp_path, monkeypatch):
    (tmp_path / "brought.py").write_text("")
    (tmp_path / "marinenav_env.py").write_text("raise SystemExit(3)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code = "import marinenav_env, brought; print(marinenav_env.__file__)"
    printed = run_step(Step("one", python(code), 60.0), 60.0, tmp_path / "log")["printed"]
    assert printed == f"{gpu_figures.ROOT}/marinenav_env/__init__.py\n"


def test_a_step_ends_when_it_is_enough(tmp_path):
    step = Step("long", python("import time; time.sleep(60)"), 60.0, may_stop=lambda: True)
    began = time.monotonic()
    assert run_step(step, 60.0, tmp_path / "log")["status"] == "ok, ended when it was enough"
    assert time.monotonic() - began < 20.0


def test_no_step_starts_when_there_is_no_time(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_figures, "all_steps", lambda args: [Step("one", [], 1.0)])
    assert main(["--out", str(tmp_path), "--minutes", "0"]) == 0
    found = json.loads((tmp_path / RESULT_NAME).read_text())["steps"]
    assert found == {"one": {"status": "no time left"}}


def test_training_is_enough_at_the_wanted_success(tmp_path):
    args = options(tmp_path, "--tiny")
    step = gpu_figures.training_step(args)
    assert not step.may_stop()
    folder = args.out / "runs" / "training_1" / "seed_0"
    (folder / "checkpoints").mkdir(parents=True)
    head = "env_steps,train_time,wall_time,success_rate\n"
    (folder / "evaluations.csv").write_text(head + "100,1.5,2.5,0.5\n200,2.5,3.5,\n")
    assert not step.may_stop()
    (folder / "evaluations.csv").write_text(head + "100,1.5,2.5,0.5\n200,2.5,3.5,0.8\n")
    assert step.may_stop()
    assert step.read_results()[1] == {
        "env_steps": "200",
        "train_time": "2.5",
        "wall_time": "3.5",
        "success_rate": "0.8",
    }
    (folder / "checkpoints" / "manifest.json").touch()
    assert gpu_figures.training_step(args).command[-2:] == ["--resume", str(folder)]
