"""Reports of AIS become tracks in a window of place and time, and vessels of episodes."""

import math

import numpy as np
import pytest
import torch

from marinenav_env import ConfigError, MarineNavEnv
from marinenav_env.scenarios.ais import read_ais, with_ais
from marinenav_env.waters.charts import Chart
from marinenav_env.waters.projection import LocalPlane
from tests.marinenav_env.helpers import simple_episode
from tests.refusals import refusal

AT = (63.4417, 10.403)
SIZE = 400.0
CORNER = LocalPlane(*LocalPlane(*AT).to_degrees(np.array([-200.0, -200.0]))[::-1])
HEAD = "MMSI,time,lat,lon,sog,cog"
NOON = 1_777_636_800.0
"""12:00 on 1 May 2026, UTC, in seconds."""


def row(vessel, time, x, y, knots=4.0, form="{vessel},{time},{lat:.8f},{lon:.8f},{knots},90.0"):
    """A line of CSV for a vessel at a place in the window (m) and a time after noon (s)."""
    lon, lat = CORNER.to_degrees(np.array([x, y])).tolist()
    return form.format(vessel=vessel, time=NOON + time, lat=lat, lon=lon, knots=knots)


def tracks_of(tmp_path, *rows, head=HEAD, **options):
    path = tmp_path / "ais.csv"
    path.write_text("\n".join((head, *rows)))
    return read_ais(path, **({"at": AT, "size": SIZE, "begin": NOON, "seconds": 120.0} | options))


def close(track):
    return [pytest.approx(point, abs=0.02) for point in track]


SAILING = [row(1, time, 100.0, 100.0 + 2.0 * time) for time in (0.0, 30.0, 60.0)]
SAILED = [[0.0, 100.0, 100.0], [30.0, 100.0, 160.0], [60.0, 100.0, 220.0]]


def test_reports_in_any_order_and_more_than_once_become_a_track(tmp_path):
    (track,) = tracks_of(tmp_path, *reversed(SAILING), SAILING[1], row(1, 30.0, 100.0, 190.0))
    assert track == close(SAILED)


def test_no_end_of_a_track_is_lost_to_fractions_of_a_second(tmp_path):
    for first in np.random.default_rng(0).uniform(0.0, 10.0, 40).round(3).tolist():
        (track,) = tracks_of(tmp_path, row(1, first, 100.0, 100.0), row(1, first + 30.001, 100.0, 160.0))
        assert track == close([[first, 100.0, 100.0], [first + 30.001, 100.0, 160.0]])


def test_a_short_time_in_the_window_is_found(tmp_path):
    """A leg of 4 km crosses a window of 40 m, wherever its middle is."""
    for shift in (0.0, 70.0, 130.0):
        ends = [row(1, time, 200.0, place + shift, 25.0) for time, place in ((0.0, -1800.0), (100.0, 2200.0))]
        assert len(tracks_of(tmp_path, *ends, size=40.0)) == 1


def test_the_window_may_be_that_of_a_chart(tmp_path):
    chart = Chart("c", SIZE, 120.0, np.zeros((0, 4)), (), (CORNER.latitude, CORNER.longitude), 0.0, "")
    (track,) = tracks_of(tmp_path, *SAILING, at=chart)
    assert track == close(SAILED[:2])


CADASTRE = ("MMSI,BaseDateTime,LAT,LON,SOG,COG,Heading,VesselName", "{vessel},{time},{lat},{lon},{knots},90.0,511,X")
DANISH = (
    "# Timestamp,Type of mobile,MMSI,Latitude,Longitude,Navigational status,ROT,SOG,COG",
    "{time},Class A,{vessel},{lat},{lon},Under way,,{knots},90.0",
)
KYSTVERKET = ("mmsi;lon;lat;date_time_utc;sog;cog;source", "{vessel};{lon};{lat};{time};{knots};90.0;g")
SPELT_OUT = (KYSTVERKET[0].replace("sog", "speed_over_ground").replace("mmsi", "source_mmsi"), KYSTVERKET[1])
SEMICOLONS = ("Time;mmsi;LON;Lat;SOG;cog", "{time};{vessel};{lon};{lat};{knots};90.0")


@pytest.mark.parametrize(
    ("head", "form", "times"),
    [
        (*CADASTRE, [f"2026-05-01T12:0{each}" for each in ("0:00", "0:30", "1:00")]),
        (*CADASTRE, [f"2026-05-01 14:0{each}+02:00" for each in ("0:00", "0:30", "1:00")]),
        (*DANISH, [f"01/05/2026 12:0{each}" for each in ("0:00", "0:30", "1:00")]),
        (*SEMICOLONS, ["1777636800", "1777636830.0", "1777636860"]),
        (*SPELT_OUT, ["1777636800000", "01.05.2026 12:00:30", "01-05-2026 12:01:00.0"]),
        (*KYSTVERKET, [f"2026-05-01 12:0{each}" for each in ("0:00", "0:30", "1:00")]),
    ],
)
def test_columns_have_the_names_and_times_of_several_sources(head, form, times, tmp_path):
    rows = [row(1, 0.0, x, y, form=form.replace("{time}", text)) for (_, x, y), text in zip(SAILED, times, strict=True)]
    rows = [each.replace(".", ",") if head == KYSTVERKET[0] else each for each in rows]  # decimal commas
    for begin in (NOON, "2026-05-01T12:00:00", "2026-05-01T12:00:00Z", "01/05/2026 12:00:00", None):
        assert [close(track) for track in tracks_of(tmp_path, *rows, head=head, begin=begin)] == [SAILED]


def test_gaps_and_jumps_split_a_track(tmp_path):
    times = [0.0, 60.0, 361.0, 420.0, 480.0, 540.0]
    rows = [row(1, time, 100.0, 100.0 + 0.5 * time) for time in times[:4]]
    rows += [row(1, time, 9000.0, 100.0 + 0.5 * time) for time in times[4:]]
    found = tracks_of(tmp_path, *rows, seconds=600.0)
    assert sorted([track[0][0], track[-1][0]] for track in found) == [[0.0, 60.0], [361.0, 420.0]]


def test_a_track_is_cut_to_the_window_of_place_and_time(tmp_path):
    """Its first point is outside of the place, its last one between two reports, at the end of the time."""
    rows = [row(1, time, 100.0, -1005.0 + 10.0 * time) for time in range(-60, 400, 20)]
    (track,) = tracks_of(tmp_path, *rows, seconds=115.0)
    assert track == close([[100.0, 100.0, -5.0], [115.0, 100.0, 145.0]])


def test_vessels_at_rest_stay_at_their_mean_position(tmp_path):
    rows = [row(1, 60.0 * number, 50.0 + 2.0 * (number % 2), 60.0, knots=0.1) for number in range(4)]
    (track,) = tracks_of(tmp_path, *rows)
    assert track == close([[0.0, 51.0, 60.0], [120.0, 51.0, 60.0]])
    seldom = [row(1, 360.0 * number, 50.0, 60.0, knots=0.1) for number in (-1, 1)]
    assert tracks_of(tmp_path, *seldom) == [close([[0.0, 50.0, 60.0], [120.0, 50.0, 60.0]])]
    episode = with_ais(simple_episode([(5.0, 5.0, 0.0)], [[25.0, 5.0]]), [track])
    assert episode.velocity[1] == [0.0, 0.0, 0.0] and math.dist(episode.goal[1], track[-1][1:]) >= 20.0


def test_what_is_not_available_is_skipped(tmp_path):
    odd = ["1,1777636815,91,181,4.0,90", row(1, 15.0, 0.0, 0.0, knots=102.3), "1,1777636820,,,,", "", "7,x,91.0,0,1,1"]
    odd += [row(1, 20.0, 0.0, 0.0, knots=speed) for speed in (-0.1, 130.0, "fast")]  # 130: a helicopter
    odd += [row("", 25.0, 0.0, 0.0), ",,,,,", "   ", SAILING[1].replace("1,", "1.0,", 1)]
    assert tracks_of(tmp_path, SAILING[0], *odd, *SAILING[1:]) == [close(SAILED)]


def test_the_vessels_that_are_longest_in_the_window_are_kept(tmp_path):
    short = [row(2, time, 50.0, 50.0 + 3.0 * time) for time in (0.0, 20.0)]
    assert tracks_of(tmp_path, *short, *SAILING, max_ships=1) == [close(SAILED)]
    assert len(tracks_of(tmp_path, *short, *SAILING)) == 2


def test_vessels_of_an_episode_sail_their_tracks(tmp_path):
    late = [[40.0, 300.0, 60.0], [60.0, 300.0, 100.0]]
    before = simple_episode([(5.0, 5.0, 0.0)], [[250.0, 5.0]])
    episode = with_ais(before, [*tracks_of(tmp_path, *SAILING), late])
    assert episode.behaviour == ["", "track", "track"] and before.behaviour == []
    assert episode.start[1:] == [pytest.approx([100.0, 100.0], abs=0.02), [300.0, -20.0]]
    assert episode.heading[1:] == pytest.approx([0.5 * math.pi] * 2, abs=1e-3)
    env = MarineNavEnv(scenarios=[episode], seed=0)
    step = env.reset()
    for _ in range(80):
        step = env.step_mdp(env.step(step.set(("robots", "action"), torch.zeros(1, 3, 2))))
    assert env.state.pose[0, 1:, :2].tolist() == [pytest.approx([100.0, 180.0], abs=0.1), pytest.approx([300.0, 60.0])]
    twice = with_ais(episode, [late])
    assert twice.behaviour == ["", "track", "track", "track"] and len(twice.track) == len(twice.start) == 4


BAD = [
    ("", {}, "has no column MMSI, time, lat, lon, sog; its columns are none"),
    ("MMSI,time,x,y\n", {}, "has no column lat, lon, sog; its columns are mmsi, time, x, y"),
    (HEAD, {}, "no report of a vessel is near the window"),
    (f"{HEAD}\n1,2\n", {}, "row 2=['1', '2']: must be 6 values"),
    (f"{HEAD}\n1,0,north,10,1,1", {}, "row 2: lat='north': must be a number from -90 to 90"),
    (f"{HEAD}\n1,0,63,1000,1,1", {}, "row 2: lon='1000': must be a number from -360 to 360"),
    (f"{HEAD}\n1,0,63.4417,10.403,1000,1", {}, "no report of a vessel is near"),
    (HEAD.replace(",", ";") + "\n1;0;6,344,4;10,4;1;1", {}, "row 2: lat='6,344,4': must be a number from -90 to 90"),
    *(
        (f"{HEAD}\n1,{text},63.4417,10.403,1,1", {}, f"row 2: time='{text}': must be seconds")
        for text in ("2026-05-01T12:00:60", "0000-05-01T12:00:00", "01/05/26 12:00:00", "-5", "")
    ),
    (f"{HEAD}\n1,1777636800000000,63.4417,10.403,1,1", {}, "row 2: time='1777636800000000': must be seconds"),
    ("\n".join((HEAD, *SAILING)), {"begin": 0.0}, "reports near it are from 2026-05-01T12:00:00+00:00 to"),
    ("\n".join((HEAD, SAILING[0])), {}, "no track is in the window at these times"),
    (HEAD.encode() + b"\n1,\xff,63.4417,10.403,1,1", {}, "row 2: time='\ufffd': must be seconds"),
    (f"{HEAD}\n1,0,{'9' * 200_000},10,1,1", {}, "cannot be read as AIS reports as CSV (field larger"),
    (HEAD, {"at": (91.0, 0.0)}, "must be latitude and longitude in degrees"),
    (HEAD, {"size": 1.0}, "must be a number of metres from 10 to"),
    (HEAD, {"seconds": 0.0}, "must be a number above 0"),
    (HEAD, {"max_ships": 0}, "must be a whole number from 1"),
    (HEAD, {"begin": "yesterday"}, "begin='yesterday': must be seconds"),
]


@pytest.mark.parametrize(("content", "options", "sentence"), BAD, ids=range(len(BAD)))
def test_damaged_files_and_options_are_refused(content, options, sentence, tmp_path):
    path = tmp_path / "ais.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    message = refusal(read_ais, path, **({"at": AT, "begin": NOON} | options))
    assert sentence in message and len(message) < 300


def test_other_files_are_refused(tmp_path):
    for path in (tmp_path, tmp_path / "none.csv"):
        with pytest.raises(ConfigError, match="cannot be read as AIS reports as CSV"):
            read_ais(path, AT)
    with pytest.raises(ConfigError, match=r"tracks\[0\]=.*by rising time"):
        with_ais(simple_episode([(5.0, 5.0, 0.0)], [[25.0, 5.0]]), [[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]])
