"""Matrix products of generated code by oneDNN."""

import pytest
import torch
from torch._dynamo.utils import counters
from torch._inductor import compile_fx
from torch._inductor.utils import run_and_get_code
from torch.fx.experimental.proxy_tensor import make_fx

from marinenav_env.runtime import compiling
from marinenav_env.runtime.products import MIN_MULTIPLICATIONS, LargeProducts, onednn_is_faster, product

CPU = torch.device("cpu")
needs_onednn = pytest.mark.skipif(not onednn_is_faster(), reason="oneDNN would not be used here")
LARGE = (256, 128, MIN_MULTIPLICATIONS // (256 * 128))
OPERATOR = torch.ops.marinenav.product.default


def matrices(rows, inner, columns, dtype=torch.float32):
    generator = torch.Generator().manual_seed(rows + inner)
    make = [(rows, inner), (inner, columns), (columns,)]
    return [torch.randn(*shape, dtype=dtype, generator=generator) for shape in make]


def exact(left, right, bias=None):
    found = left.double() @ right.double()
    return found if bias is None else found + bias.double()


def layer(left, right, bias):
    return torch.relu(torch.addmm(bias, left, right)) @ right.mT


def doubled(given):
    return 2.0 * given


def targets(function, *arguments):
    traced = make_fx(function, tracing_mode="fake")(*arguments)
    LargeProducts()(traced.graph)
    traced.graph.lint()
    traced.recompile()
    return [node.target for node in traced.graph.nodes if node.op == "call_function"], traced


@needs_onednn
@pytest.mark.parametrize("shape", [LARGE, (512, 256, 128), (40, 6400, 18), (96, 5, 7)])
def test_a_product_is_exact_to_float32(shape):
    left, right, bias = matrices(*shape)
    # bfloat16 would be wrong by about 4e-3 of the length of a row.
    bound = 3e-7 * left.norm(dim=1, keepdim=True) * right.norm(dim=0) + 1e-6
    assert (product(left, right, None) - exact(left, right)).abs().le(bound).all()
    assert (product(left, right, bias) - exact(left, right, bias)).abs().le(bound).all()


@needs_onednn
def test_onednn_computes_it(capfd):
    mkldnn = torch.backends.mkldnn
    with mkldnn.verbose(mkldnn.VERBOSE_ON):
        torch.mm(*matrices(*LARGE)[:2])
        assert ",matmul," not in capfd.readouterr().out
        product(*matrices(*LARGE))
    assert ",matmul," in capfd.readouterr().out


@pytest.fixture
def setting():
    """The setting for products in float32; afterwards as before."""
    matmul = torch.backends.mkldnn.matmul
    yield matmul
    torch.set_float32_matmul_precision("highest")
    matmul.fp32_precision = "none"


@pytest.mark.parametrize("before", ["none", "ieee", "tf32"])
def test_the_setting_of_the_process_is_as_before(setting, before):
    setting.fp32_precision = before
    product(*matrices(4, 3, 2))
    assert setting.fp32_precision == before
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        product(torch.ones(2, 3), torch.ones(2, 3), None)
    assert setting.fp32_precision == before


def test_large_products_of_a_graph_are_replaced():
    arguments = matrices(*LARGE)
    found, traced = targets(layer, *arguments)
    assert found.count(OPERATOR) == 2
    assert not {torch.ops.aten.mm.default, torch.ops.aten.addmm.default} & {*found}
    for node in traced.graph.find_nodes(op="call_function", target=OPERATOR):
        assert node.meta["val"].shape == (256, 128)


def scaled(left, right, bias):
    return torch.addmm(bias, left, right, alpha=2.0)


def without_bias(left, right, bias):
    return left @ right


@pytest.mark.parametrize(
    ("function", "shape", "dtype"),
    [
        (layer, (LARGE[0] - 1, *LARGE[1:]), torch.float32),
        (without_bias, (1, MIN_MULTIPLICATIONS, 2), torch.float32),
        (without_bias, (MIN_MULTIPLICATIONS, 1, 2), torch.float32),
        (without_bias, (MIN_MULTIPLICATIONS, 2, 1), torch.float32),
        (layer, LARGE, torch.float64),
        (layer, LARGE, torch.bfloat16),
        (scaled, LARGE, torch.float32),
    ],
)
def test_small_products_vectors_other_types_and_factors_stay(function, shape, dtype):
    found, _ = targets(function, *matrices(*shape, dtype))
    assert OPERATOR not in found


@pytest.mark.parametrize(
    ("different", "faster"),
    [
        ({}, True),
        ({"cpu_name": "Intel Xeon"}, False),  # MKL uses AVX-512 there
        ({"avx512_f": False}, False),
        ({"amx_tile": True}, False),  # oneDNN would round to bfloat16
    ],
)
def test_onednn_is_used_where_it_is_faster_and_exact(monkeypatch, different, faster):
    known = {"cpu_name": "AMD EPYC", "avx512_f": True} | different
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known)
    libraries = (torch.backends.mkl, torch.backends.mkldnn)
    for library in libraries:
        monkeypatch.setattr(library, "is_available", lambda: True)
    assert onednn_is_faster() is faster
    for library in libraries:
        with monkeypatch.context() as without:
            without.setattr(library, "is_available", lambda: False)
            assert not onednn_is_faster()


@pytest.mark.parametrize("faster", [False, True])
def test_generated_code_uses_it_on_a_cpu(monkeypatch, faster):
    requested = []
    monkeypatch.setattr(torch, "compile", lambda function, **options: requested.append(options))
    monkeypatch.setattr(compiling, "onednn_is_faster", lambda: faster)
    for device in ("cpu", "cuda", "meta"):
        compiling.compile_function(torch.sin, torch.device(device))
    on_cpu, *on_others = ("post_grad_custom_post_pass" in (each["options"] or {}) for each in requested)
    assert on_cpu is faster and not any(on_others)


@pytest.mark.heavy
def test_functions_compiled_twice_share_their_code(monkeypatch):
    monkeypatch.setattr(compiling, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(compile_fx, "compile_fx", lambda graph, *given, **options: graph.forward)  # no code
    given = torch.ones(3)
    compiling.compile_function(doubled, CPU)(given)
    before = counters["stats"]["unique_graphs"]
    for _ in range(10):  # more than Dynamo compiles
        assert compiling.compile_function(doubled, CPU)(given).tolist() == [2.0, 2.0, 2.0]
    assert counters["stats"]["unique_graphs"] == before


@pytest.mark.heavy
@needs_onednn
def test_a_compiled_function_gives_the_same():
    arguments = matrices(512, 258, 128)

    def backward(left, right, bias):
        right = right[:256]  # as a layer of two inputs that were joined
        return layer(left[:, :256], right, bias), left.mT @ layer(left[:, :256], right, bias)

    found, code = run_and_get_code(compiling.compile_function(backward, CPU), *arguments)
    for each, wanted in zip(found, backward(*arguments), strict=True):
        torch.testing.assert_close(each, wanted, rtol=1e-4, atol=2e-2)
    assert "marinenav.product" in code[0]
