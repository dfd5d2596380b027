"""The benchmark against TRL compares the same thing: equal losses and gradients on the same tokens, pass by pass."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from places import ROOT

pytest.importorskip("trl", reason="TRL is not installed: pip install 'bpo[trl]'")


@pytest.fixture(scope="module")
def versus():
    sys.path.insert(0, str(ROOT / "benchmarks"))  # benchmarks import each other as scripts do
    spec = importlib.util.spec_from_file_location("versus_trl", ROOT / "benchmarks" / "versus_trl.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["versus_trl"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("method", ["independent", "tree"])
def test_losses_and_gradients_are_those_of_trl(versus, method, monkeypatch):
    from dataclasses import replace

    from bpo.policies.warmstart import warm_start
    from bpo.sandboxes import demonstration, factory

    monkeypatch.setattr(versus, "OPTIONS", {"difficulty": "tiny"})
    make = factory("household", versus.OPTIONS)
    recipe = replace(versus.RECIPE, games=40, epochs=1, size="micro")
    policy = warm_start(make, recipe, versus.WRITING, demonstrate=demonstration("household"))
    sandbox = make()
    tasks = sandbox.tasks("panel")[:2]
    sandbox.close()
    found = versus.compared(method, policy, tasks, updates=2, rows=26, passes=2)
    assert found["loss_error"] < 1e-5
    assert found["norm_error"] < 1e-5
    assert found["trained_ours"] == found["trained_trl"] > 0
    assert found["computed_ours"] < found["computed_trl"]
    assert found["read_ours"] < found["read_trl"]
