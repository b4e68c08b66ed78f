"""Lint: no host reads in device code.

Reading a tensor's value on the host makes the CPU wait for the GPU. This fails on reads in the
functions listed in DEVICE_CODE. A read that is meant is excused by `# host: reason` on its line.
"""

import ast
import io
import sys
import tokenize
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

# File (or pattern of files) -> patterns of function qualnames ("Class.method"), where * also
# matches dots.
DEVICE_CODE: dict[str, list[str]] = {
    "marinenav_env/current.py": ["*"],
    "marinenav_env/dynamics.py": ["*"],
    "marinenav_env/perception.py": ["*"],
    "marinenav_env/colregs.py": ["*"],
    "marinenav_env/reward.py": ["*"],
    "marinenav_env/endings.py": ["*"],
    "marinenav_env/world.py": ["*"],
    "marinenav_env/layout.py": ["*"],
    "marinenav_env/thrust.py": ["*"],
    "marinenav_env/scripted.py": ["*"],
    "marinenav_env/env.py": [
        f"MarineNavEnv.{n}"
        for n in (
            "_step",
            "_draw_noise",
            "_reset",
            "maybe_reset",
            "reset_done",
            "settle",
            "_restart",
            "_pack",
        )
    ],
    "train_RL_agents/policy_wrapper.py": ["*"],
    "train_RL_agents/baselines/[!_]*.py": ["*"],
    "train_RL_agents/evaluation/recording.py": [
        "Recorder.__call__",
        "Recorder._add",
        "_frame",
        "_rates",
    ],
    "train_RL_agents/losses.py": ["*"],
    "train_RL_agents/memory/[!_]*.py": ["*"],
    "train_RL_agents/networks.py": ["*"],
    "train_RL_agents/captured.py": ["*"],
    "train_RL_agents/learner.py": [
        "in_bfloat16*",
        "joined",
        "Learner.*update*",
        "Learner.*gradients",
        "Learner._accumulate",
    ],
    "train_RL_agents/meter.py": ["Meter.add"],
    "train_RL_agents/flat.py": ["FlatWeights.gradients", "FlatWeights.require_in_place"],
    "train_RL_agents/agents/[!_]*.py": ["*"],
    "train_RL_agents/captured_collect.py": ["InPlaceCollector.*"],
    "train_RL_agents/experience.py": [
        "*.batches",
        "*.collected",
        "*._stored",
        "*.insert",
        "*.active",
    ],
    "train_RL_agents/torchrl_trainer.py": ["*.collect"],
    "train_RL_agents/benchmark/rig.py": ["*.advance", "fill*"],
}
READS = {"item", "cpu", "numpy", "tolist", "nonzero"}  # methods that read
CASTS = {"float", "int", "bool"}  # builtins that read when given a tensor
REDUCTIONS = {"any", "all", "sum", "max", "min"}  # in a condition, their result is read
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Function]]:
    """Every function below node, nested ones too, with its qualname."""
    for child in ast.iter_child_nodes(node):
        name = getattr(child, "name", "<lambda>")
        if isinstance(child, Function):
            yield prefix + name, child
        named = isinstance(child, Function | ast.ClassDef)
        yield from functions(child, f"{prefix}{name}." if named else prefix)


def known_on_host(node: ast.expr) -> bool:
    """Literals, arithmetic on them, len(...) and shapes: what needs no read."""
    match node:
        case ast.Constant() | ast.Attribute(attr="ndim") | ast.Call(func=ast.Name(id="len")):
            return True
        case ast.Subscript(value=value):
            return isinstance(value, ast.Attribute) and value.attr == "shape"
        case ast.UnaryOp(operand=operand):
            return known_on_host(operand)
        case ast.BinOp(left=left, right=right):
            return known_on_host(left) and known_on_host(right)
    return False


def conditions(node: ast.AST) -> list[ast.expr]:
    """The expressions whose truth this node takes."""
    match node:
        case ast.If() | ast.While() | ast.IfExp() | ast.Assert():
            return [node.test]
        case ast.BoolOp(values=tests) | ast.comprehension(ifs=tests):
            return tests
        case ast.UnaryOp(op=ast.Not()):
            return [node.operand]
    return []


def host_reads(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """The expressions below node that read a tensor, and why they do."""
    for child in ast.walk(node):
        match child:
            case ast.Call(func=ast.Attribute(attr=name)) if name in READS:
                yield child, f".{name}() reads the device"
            case ast.Call(func=ast.Attribute(attr="to"), args=[ast.Constant(value="cpu"), *_]):
                yield child, '.to("cpu") reads the device'
            case ast.Call(func=ast.Name(id=name), args=[arg]) if name in CASTS:
                if not known_on_host(arg):
                    yield child, f"{name}() of a tensor reads the device"
        for test in conditions(child):
            for call in ast.walk(test):
                match call:
                    case ast.Call(func=ast.Attribute(attr=name)) if name in REDUCTIONS:
                        yield call, f"a condition on .{name}() reads the device"


def lint(root: Path, path: str, patterns: list[str]) -> list[str]:
    """The complaints about one file, as `path:line: message`."""
    source = (root / path).read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {t.start[0]: t.string for t in tokens if t.type == tokenize.COMMENT}
    excused = {n for n, text in comments.items() if text.partition("# host:")[2].strip()}
    rows: dict[tuple[int, int, str], None] = {}
    used: set[str] = set()
    for qualname, function in functions(ast.parse(source, path)):
        matching = {pattern for pattern in patterns if fnmatchcase(qualname, pattern)}
        used |= matching
        for read, why in host_reads(function) if matching else ():
            if excused.isdisjoint(range(read.lineno, (read.end_lineno or read.lineno) + 1)):
                rows[read.lineno, read.col_offset, why] = None
    unused = [f"{path}:1: no function matches {p!r}" for p in patterns if p not in used]
    return unused + [f"{path}:{line}: {why}" for line, _, why in sorted(rows)]


def main(root: Path = Path(__file__).parents[1]) -> int:
    """Lint every listed file; 1 if there is a complaint."""
    rows: list[str] = []
    count = 0
    for listed, patterns in DEVICE_CODE.items():
        paths = sorted(path.relative_to(root).as_posix() for path in root.glob(listed))
        rows += [row for path in paths for row in lint(root, path, patterns)]
        rows += [] if paths else [f"{listed}:1: listed in DEVICE_CODE but is not there"]
        count += len(paths)
    print("\n".join(rows) or f"no host reads in {count} files of device code")
    return 1 if rows else 0


if __name__ == "__main__":
    sys.exit(main())
