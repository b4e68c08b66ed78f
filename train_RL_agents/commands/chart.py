"""Read a window of a chart as shores to train and evaluate on."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from train_RL_agents.commands.choosing import parse_names

IMPORTS = ("marinenav_env.waters.charts",)
USES_TORCH = False
DEFAULT_SIZE = 300.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``marinenav chart`` to its parser."""
    parser.argument_default = argparse.SUPPRESS
    # A southern latitude is no option.
    parser._negative_number_matcher = re.compile(r"-\d[-.,\d]*$")
    add = parser.add_argument
    kinds = "GeoJSON; with 'marinenav[charts]' also S-57 cells (.000), GeoPackage, shapefiles, GPX"
    add("files", metavar="FILE", type=Path, nargs="+", help=f"chart, one or several: {kinds}")
    add("--at", metavar="LAT,LON", type=parse_place, help="middle of the window in degrees; by default of the data")
    add("--size", metavar="M", type=float, default=DEFAULT_SIZE, help="side of the window in metres (300)")
    usual = "LNDARE,COALNE,SLCONS,PONTON,DEPARE of S-57, and what has no layer"
    add("--layers", metavar="A,B", type=parse_names, help=f"layers of land and walls; by default {usual}")
    add("--draught", metavar="M", type=float, help="depth in metres up to which depth areas are land (0.5)")
    fewest = "by default 64, or 256 where these have an error of more than 1 m"
    add("--segments", metavar="N", type=int, help=f"largest number of segments; {fewest}")
    add("--tolerance", metavar="M", type=float, help="error of this in metres; by default the smallest, up to 1%% of M")
    add("--out", metavar="FILE", type=Path, required=True, help="file of the chart (.json); a picture is put beside it")


def parse_place(text: str) -> tuple[float, float]:
    """Convert a command-line argument to a latitude and a longitude."""
    try:
        latitude, longitude = map(float, text.split(","))
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"must be latitude,longitude such as 25.77,-80.18, not {text}") from error
    return latitude, longitude


def run(arguments: argparse.Namespace) -> int:
    """Run ``marinenav chart``, and return its exit status."""
    from marinenav_env.config import SHORE_SIZES
    from marinenav_env.support.files import replacing, require_writable_outputs
    from marinenav_env.waters.charts import DRAUGHT, read_chart
    from marinenav_env.waters.picture import draw_svg
    from train_RL_agents.utils.table import Table

    given, out = vars(arguments), arguments.out
    if out.suffix.lower() != ".json":
        arguments.parser.error(f"argument --out: must be a file that ends in .json, not {out}")
    picture = out.with_suffix(".svg")
    require_writable_outputs(out, picture)
    chart = read_chart(
        arguments.files,
        given.get("at"),
        arguments.size,
        given.get("layers"),
        given.get("draught", DRAUGHT),
        given.get("segments"),
        given.get("tolerance"),
    )
    _, distance = chart.sample()
    row = {
        "window": chart.name,
        "north x east (m)": f"{chart.width:g} x {chart.height:g}",
        "segments": f"{len(chart.shores)}",
        "error (m)": f"{chart.tolerance:.2f}",
        "water": f"{(distance > 0.0).mean():.0%}",
        "routes": f"{len(chart.routes)}",
        "south-west corner": "{:.6f},{:.6f}".format(*chart.origin),
    }
    chart.save(out)
    with replacing(picture) as stream:
        stream.write(draw_svg(chart).encode())
    Table.from_rows([row]).print(chart.source)
    print(f"wrote {out} and {picture}")
    segments = {*map(tuple, chart.shores.tolist())}
    if all((*segment[2:], *segment[:2]) in segments for segment in segments):
        print("there is no land: all lines have water on both sides")
    if len(segments) > SHORE_SIZES[-1]:
        print(
            f"worlds have room for {SHORE_SIZES[-1]} segments: --segments {SHORE_SIZES[-1]} or a smaller --size helps"
        )
    return 0
