"""The models of benchmarks/architectures.py, few words of each, on the CPU without compilation."""

import importlib
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the models of benchmarks/architectures.py need torch")
pytest.importorskip("transformers", reason="the models of benchmarks/architectures.py need transformers")
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
architectures, models = (importlib.import_module(name) for name in ("architectures", "models"))


@pytest.mark.parametrize("name", models.NINE)
def test_a_model_of_each_architecture_has_gradients_of_all_weights(name: str) -> None:
    model = architectures.made(name, "cpu", 255 if name == "opt-1020" else 256)
    tokens = torch.randint(architectures.WORDS, (2, 5))
    gradient = torch.ones(2, 5, model.width, dtype=torch.bfloat16)
    found = architectures.results(model, architectures.stepping(model, model, tokens, gradient))
    assert [x.dtype for x in model.parameters() if x.dtype != torch.bfloat16] == []
    assert len(found) == 1 + len(list(model.parameters())) and all(x.isfinite().all() for x in found)
    assert architectures.error(found, found) == 0
    assert architectures.error([2 * x for x in found], found) == pytest.approx(1)
