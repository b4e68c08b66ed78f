"""Encoders built from the specification of the observation's entries."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from marinenav_env import WorldConfig
from marinenav_env.config import ScenarioConfig, SensorConfig, VesselConfig
from marinenav_env.sensing.entries import Entry
from marinenav_env.vessels import read_vessel, scale_of_vessel, scaled_world
from tests.train_RL_agents.helpers import SPEC, make_inputs, seeded
from train_RL_agents.config.building import make_observation_spec
from train_RL_agents.networks.encoder_config import EncoderConfig
from train_RL_agents.networks.encoders import ObservationNetwork
from train_RL_agents.networks.features import GeometryScales, encounter_geometry, goal_geometry
from train_RL_agents.networks.observation import ObservationSpec

pytestmark = pytest.mark.usefixtures("seeded_weights")

JOINED = ("max", "attention")
OBJECT_SCALE = torch.tensor(SPEC.entries["objects_state"].scale)
SELF_SCALE = torch.tensor(SPEC.entries["self_state"].scale)
SCANNING = make_observation_spec(WorldConfig(sensor=SensorConfig(scan_beams=16)))
WITH_SHORES = make_observation_spec(WorldConfig(scenario=ScenarioConfig(shore_segments=16)))
WITH_DUTIES = make_observation_spec(WorldConfig(sensor=SensorConfig(duties=True)))


def network(spec=SPEC, **settings):
    return ObservationNetwork(EncoderConfig(**settings), spec)


def inputs(*shape, seed=0, spec=SPEC):
    return make_inputs(*shape, generator=seeded(seed), spec=spec)


def with_entries(*entries):
    """The published observation and further entries."""
    return ObservationSpec(SPEC.entries | {each.name: each for each in entries}, SPEC.radius)


def slots(observation, change):
    """An observation with the object slots [..., K, 5] and their mask [..., K] changed alike."""
    changed = {name: change(observation[name]) for name in ("objects_state", "objects_mask")}
    return {**observation, **changed}


def without(observation, name):
    return {key: value for key, value in observation.items() if key != name}


# As published ------------------------------------------------------------------------------------


def test_concatenation_by_hand():
    """One robot and one object at a time, with plain matrix products."""
    net, given = network(features="scaled"), inputs(4)
    got = net.encode(given)
    assert got.shape == (4, net.encoded_width) == (4, 256)
    own_layer, object_layer = net.self_encoder[0], net.object_encoder[0]
    for b in range(4):
        own = own_layer.weight @ (given["self_state"][b] / SELF_SCALE) + own_layer.bias
        parts = [own.clamp_min(0.0)]
        for k in range(5):
            one = object_layer.weight @ (given["objects_state"][b, k] / OBJECT_SCALE)
            one = (one + object_layer.bias).clamp_min(0.0)
            parts.append(one if given["objects_mask"][b, k] else torch.zeros(40))
        torch.testing.assert_close(got[b], torch.cat(parts))


def test_small_boats_are_scaled_by_their_size():
    """The same network sees the same in a world that is as much smaller and slower as the boat."""
    spec, ratio = make_observation_spec(scaled_world("roboboat")), scale_of_vessel(read_vessel("roboboat"))
    usual = replace(SPEC, radius=spec.radius / ratio.length)
    large, small, given = network(usual), network(spec), inputs(6)
    small.load_state_dict(large.state_dict() | {name: getattr(small, name) for name in ("self_scale", "object_scale")})
    lengths, speeds = [ratio.length] * 2, [ratio.speed] * 2
    own = torch.tensor([*lengths, *speeds, 1.0 / ratio.time, *[ratio.thrust] * 2])
    objects = torch.tensor([*lengths, *speeds, ratio.length])
    shrunk = {**given, "self_state": given["self_state"] * own, "objects_state": given["objects_state"] * objects}
    torch.testing.assert_close(small.encode(shrunk), large.encode(given), atol=1e-4, rtol=1e-3)
    assert spec.scales.risk_distance == pytest.approx(2.0 * 1.35)


@pytest.mark.parametrize("radius", [1.0, 2.5])
def test_geometry_is_that_of_the_worlds_vessel(radius):
    spec = make_observation_spec(WorldConfig(vessel=VesselConfig(radius=radius)))
    assert spec.radius == radius
    net, given = network(spec), inputs(6)
    own = torch.cat((given["self_state"] / SELF_SCALE, goal_geometry(given["self_state"], GeometryScales())), -1)
    geometry = encounter_geometry(given["self_state"], given["objects_state"], radius, GeometryScales())
    objects = torch.cat((given["objects_state"] / OBJECT_SCALE, geometry), -1)
    objects = net.object_encoder(objects) * given["objects_mask"][..., None]
    expected = torch.cat((net.self_encoder(own), objects.flatten(-2)), -1)
    torch.testing.assert_close(net.encode(given), expected)


# Any way of joining ------------------------------------------------------------------------------


@pytest.mark.parametrize("encoder", ["concat", *JOINED])
def test_without_any_object_their_features_are_zero(encoder):
    net, given = network(encoder=encoder), inputs(4)
    given["objects_mask"] = torch.zeros_like(given["objects_mask"])
    given["objects_state"] = given["objects_state"].requires_grad_()
    features = net.encode(given)
    assert not features[:, 56:].any()
    assert features[:, :56].any()
    features.square().sum().backward()
    assert given["objects_state"].grad.isfinite().all()
    for parameter in net.parameters():
        assert parameter.grad is None or parameter.grad.isfinite().all()


def test_maximum_by_hand():
    net, given = network(encoder="max", features="raw"), inputs(6)
    join = net.object_join.layer
    for b in range(6):
        best = torch.zeros(40)
        for k in range(5):
            if given["objects_mask"][b, k]:
                encoded = net.object_encoder(given["objects_state"][b, k])
                best = torch.maximum(best, join.weight @ encoded + join.bias)
        torch.testing.assert_close(net.encode(given)[b, 56:], best)


def test_attention_as_torch_computes_it():
    net, given = network(encoder="attention"), inputs(6)
    given["objects_mask"][:, 0] = True  # torch's gives NaN without any object
    own = torch.randn(6, 56, generator=seeded(1))
    objects = torch.randn(6, 5, 40, generator=seeded(2)).relu()
    objects = objects * given["objects_mask"][..., None]
    join = net.object_join
    heads = [
        projection(each).unflatten(-1, (2, 40)).transpose(-2, -3)
        for projection, each in ((join.query, own[:, None]), (join.key, objects), (join.value, objects))
    ]
    allowed = given["objects_mask"][:, None, None]
    attended = nn.functional.scaled_dot_product_attention(*heads, attn_mask=allowed)
    expected = torch.cat((attended.squeeze(-2).flatten(-2), objects.amax(-2)), -1)
    torch.testing.assert_close(join(own, objects, given["objects_mask"]), expected)


# Further entries ---------------------------------------------------------------------------------


def test_a_scan_is_encoded_by_its_closeness():
    net, given = network(SCANNING, scan_width=10), inputs(4, spec=SCANNING)
    assert net.encoded_width == 256 + 10
    given["scan"] = given["scan"].abs().clamp_max(SCANNING.entries["scan"].scale[0])
    layers = net.encoders["scan"].layers
    expected = layers(1.0 - given["scan"] / SCANNING.entries["scan"].scale[0])
    torch.testing.assert_close(net.encode(given)[:, 256:], expected)
    # Where nothing is in range all weights of the first layer are multiplied by 0.
    far = torch.full_like(given["scan"], SCANNING.entries["scan"].scale[0])
    silent = layers(torch.zeros_like(far))
    torch.testing.assert_close(net.encode({**given, "scan": far})[:, 256:], silent)


@pytest.mark.parametrize("shape", [(3,), (2, 3), ()])
def test_a_vector_of_any_shape_is_encoded(shape):
    entry = Entry("wind", "vector", shape, scale=(4.0,))
    spec = with_entries(entry)
    net, given = network(spec, self_width=12), inputs(5, 2, spec=spec)
    assert net.encoded_width == 12 + 200 + 12
    layer = net.encoders["wind"].layers[0]
    flat = given["wind"].reshape(5, 2, -1) / 4.0
    expected = (flat @ layer.weight.T + layer.bias).clamp_min(0.0)
    torch.testing.assert_close(net.encode(given)[..., -12:], expected)


@pytest.mark.parametrize("encoder", ["concat", *JOINED])
def test_duties_are_encoded_with_the_object_of_their_slot(encoder):
    net, given = network(WITH_DUTIES, encoder=encoder), inputs(16, spec=WITH_DUTIES)
    assert net.encoders is None and net.encoded_width == network(encoder=encoder).encoded_width
    order = torch.tensor([3, 0, 4, 2, 1])
    moved = {**given, "duties": given["duties"][:, order]}
    assert not torch.allclose(net.encode(moved), net.encode(given))
    if encoder in JOINED:
        torch.testing.assert_close(net.encode(slots(moved, lambda each: each[:, order])), net.encode(given))
    junk = torch.where(given["objects_mask"][..., None], given["duties"], 1e4)
    torch.testing.assert_close(net.encode({**given, "duties": junk}), net.encode(given))


@pytest.mark.parametrize(("encoder", "width"), [("concat", 40), ("max", 40), ("attention", 3 * 40)])
def test_shores_are_encoded_in_their_order_except_by_attention(encoder, width):
    net, given = network(WITH_SHORES, encoder=encoder), inputs(4, spec=WITH_SHORES)
    given["shore_mask"][:, 3:] = False
    assert net.encoders["shore"].width == width
    junk = torch.where(given["shore_mask"][..., None], given["shore"], 1e4)
    turned = {name: given[name].flip(1) for name in ("shore", "shore_mask")}
    encoded, unseen, flipped = map(net.encode, (given, {**given, "shore": junk}, {**given, **turned}))
    torch.testing.assert_close(unseen, encoded)
    assert torch.allclose(flipped, encoded, atol=1e-6) == (encoder == "attention")
    absent = {**given, "shore": given["shore"] * 0.0, "shore_mask": given["shore_mask"] & False}
    at_a_corner = {**absent, "shore_mask": given["shore_mask"]}
    assert not torch.allclose(net.encode(absent), net.encode(at_a_corner))


def test_duties_and_the_objects_can_be_excluded_one_by_one():
    plain, given = network(WITH_DUTIES, excluded=("duties",)), inputs(4, spec=WITH_DUTIES)
    assert plain.object_encoder[0].in_features == network().object_encoder[0].in_features
    assert set(WITH_DUTIES.exclude(("duties",)).entries) == {"self_state", "objects_state", "objects_mask"}
    assert plain.encode(without(given, "duties")).shape == (4, plain.encoded_width)
    alone = network(WITH_DUTIES, excluded=("objects_state",))
    assert set(WITH_DUTIES.exclude(("objects_state",)).entries) == {"self_state", "objects_mask", "duties"}
    assert alone.encode(without(given, "objects_state")).shape == (4, alone.encoded_width)
    assert [*alone.encoders] == ["duties"]
    assert set(WITH_DUTIES.exclude(("duties", "objects_state")).entries) == {"self_state"}


def test_entries_that_are_excluded_do_not_matter():
    # Files of policies have the scales of all entries.
    assert {"self_scale", "object_scale"} <= network(excluded=("objects_state",)).state_dict().keys()
    net = network(SCANNING, excluded=("objects_state", "scan"))
    assert net.encoded_width == 56
    assert net.encoders is None
    given, other = inputs(4, spec=SCANNING), inputs(4, seed=1, spec=SCANNING)
    changed = {**other, "self_state": given["self_state"]}
    torch.testing.assert_close(net.encode(changed), net.encode(given))
    # They may as well be missing.
    torch.testing.assert_close(net.encode({"self_state": given["self_state"]}), net.encode(given))
    assert set(SCANNING.exclude(("objects_state",)).entries) == {"self_state", "scan"}


# Far goals ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("features", ["raw", "scaled", "geometric"])
def test_goals_beyond_reach_are_told_apart_by_direction_alone(features):
    far = inputs(2)
    far["self_state"][:, :2] = torch.tensor([30.0, 40.0])
    near = far | {"self_state": far["self_state"].clone()}
    near["self_state"][:, :2] = torch.tensor([24.0, 32.0])
    for reach, alike in ((40.0, True), (0.0, False)):
        torch.manual_seed(0)
        net = network(features=features, goal_reach=reach)
        assert torch.allclose(net.encode(far), net.encode(near), atol=1e-6) is alike
