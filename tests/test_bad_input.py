"""Bad input, by command: one sentence that names what is wrong and what would be right, exit code 2, and nothing written."""

from __future__ import annotations

import gzip
import json
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT

import bpo.cache
import bpo.cli
import reproduce.__main__
from bpo import tree_log
from bpo.checkfork import check_fork
from bpo.config import RunConfig, Settings, checked, load_preset
from bpo.errors import BadInput
from bpo.exact import Problem, report
from bpo.experiment import run
from bpo.methods import build
from bpo.policies.settings import PolicySettings, WarmStart
from bpo.preflight import check_run
from bpo.reading import from_json, from_yaml, read_bytes, scalar, to_yaml
from bpo.sandboxes import factory, fork_check
from bpo.sandboxes.household import Household
from bpo.sandboxes.toy import ToyTree
from bpo.sandboxes.webshop.replay import read_traces

# Seconds of computing that a refusal may take; the machine that tests run on is shared, so its clock says less.
SOON = 3.0
DEEP = "[" * 100_000
SPEC = '{"p": [0.3], "r": [0, 1], "threshold": 0.6}'
PRESET = """description: toy
settings: {updates: 1, tasks_per_update: 2, lr: 0.1, curve_tasks: 4, eval_tasks: 4}
sandboxes:
  toy: {scale: nothing, options: {returns: [0, 1, 1, 0]}, policy: {kind: tabular}}
methods: {}
sweep: {seeds: [0], rows: [{label: one, method: rloo}]}
"""


def preset(old: str, new: str) -> dict[str, str]:
    assert old in PRESET
    return {"mine.yaml": PRESET.replace(old, new)}


RUN_FOLDER = {"r/one/config.yaml": "", "r/one/metrics.jsonl": ""}
# A kind of device that the machine certainly lacks one of.
GPU = preset("kind: tabular", "kind: tabular, device: cuda:99")
MANY_ON_GPU = {name: text.replace("tasks_per_update: 2", "tasks_per_update: 65") for name, text in GPU.items()}
TRACE = {
    "action": "search[a]",
    "avail": {"has_search_bar": True, "clickables": ["search"]},
    "obs": "",
    "reward": 0,
    "done": False,
}


def trained(*more: str, method: str = "rloo", told: str = "smoke", sandbox: str = "toy") -> tuple[str, ...]:
    return ("bpo", "train", "--method", method, "--sandbox", sandbox, "--preset", told, *more)


MINE = trained(told="mine.yaml")
SET = {
    "points=[1": ("bpo", "points is '[1'; it must be a whole number"),
    "points={a: b": ("bpo", "points is '{a: b'"),
    "points=\t": ("bpo", "points is None; it must be a whole number"),
    "points=1\x1b[31m": ("bpo", "points is '1\\x1b[31m'"),
    "points=010": ("bpo", "'010' begins with 0"),
    "points=1.5": ("bpo", "points is 1.5; it must be a whole number"),
    "points=1e3": ("bpo", "points is 1000.0; it must be a whole number"),
    "points=null": ("bpo", "points is None"),
    "points=true": ("bpo", "points is True"),
    "points=1__0": ("bpo", "points is '1__0'"),
    "points=１": ("bpo", "points is '１'"),
    "points=-1": ("bpo", "points is -1; it must be at least 0"),
    "points=99999999999999999999": ("bpo", "points is 99999999999999999999; it must be at most 1000000"),
    "points=" + "9" * 5000: ("bpo", "is too large"),
    "selector=quantile": ("bpo", "selector is 'quantile'; it must be one of"),
    "selector=[quantile]": ("bpo", "selector is '[quantile]'"),
    "floor=.nan": ("bpo", "floor is nan; it must be a finite number"),
    "floor=.inf": ("bpo", "floor is inf; it must be a finite number"),
    "floor=1e999": ("bpo", "floor is inf; it must be a finite number"),
    "floor=nan": ("bpo", "floor is 'nan'; it must be a number"),
    "lam=.nan": ("bpo", "lam is nan; it must be a finite number"),
    "lam=-.inf": ("bpo", "lam is -inf; it must be a finite number"),
    "lam=1e1": ("bpo", "lam is 10.0; it must be at most 1.0"),
    "prefix=no": ("bpo", "prefix is 'no'; it must be one of backbone, off"),
    "=3": ("bpo", "KEY=VALUE"),
    "points": ("bpo", "KEY=VALUE"),
    "colour=red": ("bpo", "'colour'"),
    "root=yes": ("bpo_split", "root is 'yes'; it must be true or false"),
    "selector_value=.nan": ("bpo_split", "selector_value is nan; it must be a finite number"),
    "width=1": ("bpo_split", "width is 1; it must be at least 2"),
    "trees=1000000": ("bpo_split", "returns per task that the method plans is 13000000"),
    "returns=1_000_000_000": ("rloo", "returns is 1000000000; it must be at most 1000000"),
    "returns=100000": ("rloo", "returns per task that the method plans is 100000; it must be at most 10000"),
}
PRESETS = [
    ("updates: 1", "updates: .nan", "settings.updates is nan; it must be a finite number"),
    ("updates: 1", "updates: 1.0", "settings.updates is 1.0; it must be a whole number"),
    ("updates: 1", "updates: 1000000000", "settings.updates is 1000000000; it must be at most 1000000"),
    ("updates: 1", "updates: 010", "'010' begins with 0"),
    ("updates: 1", "updates: -1", "settings.updates is -1; it must be at least 0"),
    ("updates: 1", "updates: [1]", "settings.updates is [1]; it must be a whole number"),
    ("updates: 1", "updates: 1, updates: 2", "the key 'updates' stands there twice"),
    ("tasks_per_update: 2", "tasks_per_update: 1000000000", "tasks_per_update is 1000000000; it must be at most 1000000"),
    ("tasks_per_update: 2", "tasks_per_update: 65", "tasks_per_update is 65; there are 64 training tasks"),
    ("eval_tasks: 4", "eval_tasks: 1000000000", "eval_tasks is 1000000000; it must be at most 1000000"),
    ("lr: 0.1", f"lr: 1{'0' * 400}", "is too large"),
    ("lr: 0.1", "lr: 1e400", "settings.lr is inf; it must be a finite number"),
    ("lr: 0.1", "lr: .inf", "settings.lr is inf; it must be a finite number"),
    ("lr: 0.1", "lr: fast", "settings.lr is 'fast'; it must be a number"),
    ("lr: 0.1", "lr: yes", "settings.lr is 'yes'; it must be a number"),
    ("lr: 0.1", "lr: null", "settings.lr is None; it must be a number"),
    ("lr: 0.1", "lr: -0.1", "settings.lr is -0.1; it must be at least 0"),
    ("lr: 0.1", "lr: !!python/name:os.system x", "not valid YAML"),
    ("lr: 0.1", 'lr: 0.1, schedule: "\\ud800"', "half of a surrogate pair"),
    ("lr: 0.1", "lr: 0.1, schedule: linear", "'linear'"),
    ("lr: 0.1", "lr: 0.1, eval_splits: nope", "eval_splits is 'nope'; it must be a list"),
    ("lr: 0.1", "lr: 0.1, eval_splits: [a, b, a]", "settings.eval_splits has 'a' twice"),
    ("lr: 0.1", "lr: 0.1, concurrency: 1000000", "settings.concurrency is 1000000; it must be at most 4096"),
    ("lr: 0.1", "lr: 0.1, concurrency: 0", "concurrency is 0; it must be at least 1"),
    ("lr: 0.1", "lr: 0.1, checkpoint_every: 0", "checkpoint_every is 0; it must be at least 1"),
    ("description: toy", "description: toy\nname: ../../escape", "name is '../../escape'; it names folders"),
    ("description: toy", "description: toy\nname: .hidden", "name is '.hidden'; it names folders"),
    ("description: toy", "description: toy\nname: ''", "name is ''; it must be one line"),
    ("description: toy", 'description: toy\nname: "a\\nb"', "name is 'a\\nb'; it must be one line"),
    ("description: toy", "description: toy\nname: 7", "name is 7; it must be text"),
    ("description: toy", "description: [toy]", "description is ['toy']; it must be text"),
    ("description: toy", f"description: {DEEP}", "nested too deeply"),
    ("description: toy", "description: &a [*a]", "nested too deeply"),
    ("description: toy", "description: toy\nspeed: 3", "'speed'"),
    ("description: toy", "description: toy\n1: 3", "'1'"),
    ("description: toy", "description: toy\n[1]: 3", "a key must be text"),
    ("description: toy", "description: \x00", "not valid YAML"),
    ("description: toy", "description: a\tb: c", "not valid YAML"),
    ("seeds: [0]", "seeds: [-1]", "sweep.seeds[0] is -1; it must be at least 0"),
    ("seeds: [0]", "seeds: [0, 0]", "seeds has 0 twice"),
    ("seeds: [0]", "seeds: []", "sweep.seeds is []"),
    ("seeds: [0]", "seeds: [4294967296]", "sweep.seeds[0] is 4294967296; it must be at most 4294967295"),
    ("seeds: [0]", "seeds: [0], noise_draws: -1", "sweep.noise_draws is -1; it must be at least 0"),
    ("seeds: [0]", "seeds: [0], noise_tasks: 0", "sweep.noise_tasks is 0; it must be at least 1"),
    ("label: one", "label: ''", "label is ''; it must be one line"),
    ("label: one", 'label: "a\\e[31m"', "label is 'a\\x1b[31m'"),
    ("method: rloo", "method: rlo", "'rlo'; did you mean 'rloo'"),
    ("methods: {}", "methods: {rloo: {returns: .nan}}", "methods.rloo.returns is nan"),
    ("methods: {}", "methods: [rloo]", "methods is ['rloo']; it must be a mapping"),
    ("returns: [0, 1, 1, 0]", "returns: 5", "toy.returns is 5; it must be a list"),
    ("returns: [0, 1, 1, 0]", "returns: [0, .inf]", "returns[1] is inf; it must be a finite number"),
    ("returns: [0, 1, 1, 0]", "returns: [0, yes]", "toy.returns[1] is 'yes'; it must be a number"),
    ("returns: [0, 1, 1, 0]", "returns: [0, 1, 2]", "returns has 3 entries, which is not a power of the 2 actions"),
    ("returns: [0, 1, 1, 0]", "returns: [0, 1], width: 1", "toy.width is 1; it must be at least 2"),
    ("returns: [0, 1, 1, 0]", "returns: [0, 1], width: .nan", "width is nan"),
    ("returns: [0, 1, 1, 0]", "returns: [0, 1], width: 2.0", "toy.width is 2.0; it must be a whole number"),
    ("kind: tabular", "kind: tabular, device: meta", "policy.device is 'meta'; it must be cpu, cuda"),
    ("kind: tabular", "kind: tabular, device: cuda:99", "device is 'cuda:99'; this machine has"),
    ("kind: tabular", "kind: tabular, temperature: 0", "policy.temperature is 0; it must be above 0"),
    ("kind: tabular", "kind: tabular, dtype: float8", "'float8'"),
    ("kind: tabular", "kind: hf", "policy.model is ''; where kind is 'hf'"),
    ("kind: tabular", "kind: tiny", "needs a warm_start section"),
    ("kind: tabular", 'kind: hf, model: "a\\0b"', "policy.model is 'a\\x00b'"),
]
FILES = [
    (b"\xff\xfe\x00", "is not text in UTF-8 (byte 0 is 0xff)"),
    (PRESET.encode("utf-16"), "is not text in UTF-8"),
    (b"settings: [1, 2", "is not valid YAML"),
    (b"", "is None; it must be a mapping of fields"),
    (b"- 1", "is [1]; it must be a mapping of fields"),
    (b"a" * 200_001, "holds more than 200,000 bytes"),
    (
        (
            "x: &x [1,1,1,1,1,1,1,1,1]\n"
            + "".join(f"y{i}: &y{i} [{','.join([f'*y{i - 1}' if i else '*x'] * 9)}]\n" for i in range(9))
        ).encode(),
        "stands for more than",
    ),
]
SPECS = [
    ('{"p": [0.3], "p": [0.4], "r": [0, 1], "threshold": 0.6}', "the key 'p' stands there twice"),
    ('{"p": [0.3], "r": [0, 1], "threshold": 0.6, "treshold": 1}', "'treshold'; did you mean 'threshold'"),
    ('{"p": [0.3], "r": [0, 1], "threshold": NaN}', "NaN is not JSON"),
    ('{"p": [0.3], "r": [0, 1], "threshold": 1e999}', "threshold is inf; it must be a finite number"),
    ('{"p": [0.3], "r": [0, 1], "threshold": "low"}', "threshold is 'low'; it must be a number"),
    (f'{{"p": [0.3], "r": [0, 1], "threshold": 1{"0" * 400}}}', "threshold is 1000"),
    ('{"p": [0.3], "r": [0, true], "threshold": 0.6}', "r[1] is True; it must be a number"),
    ('{"p": [0.3], "r": [0, 1e80], "threshold": 0.6}', "r[1] is 1e+80; it must be at most 1e+75"),
    ('{"p": [null], "r": [0, 1], "threshold": 0.6}', "p[0] is None; it must be a number"),
    ('{"p": [[0.3, "x"]], "r": [0, 1], "threshold": 0.6}', "p[0][1] is 'x'; it must be a number"),
    ('{"p": [], "r": [0, 1], "threshold": 0.6}', "p is []; it must be a list of numbers"),
    ('{"p": [1], "r": [0, 1], "threshold": 0.6}', "p[0] is 1"),
    ('{"p": [0.3], "r": 5, "threshold": 0.6}', "r is 5; it must be a list of numbers"),
    ('{"p": [0.3], "r": [0, 1], "threshold": 0.6, "ends": 3}', "ends is '3'"),
    ("[1, 2]", "must hold an object with p, r and threshold"),
    ("{", "is not JSON"),
    (DEEP, "nested too deeply"),
    ('{"p": ' * 200_000, "nested too deeply"),
    ('{"p": ' + "[" * 80 + "]" * 80 + "}", "nested too deeply"),
]
EXACT = [
    (("s.json", "--out", "s.json"), "is the spec itself"),
    (("s.json", "--out", "sub/../s.json"), "is the spec itself"),
    (("s.json", "--out", "link.json"), "is the spec itself"),
    (("s.json", "--out", "hard.json"), "is the spec itself"),
    (("s.json", "--out", "sub"), "is a folder or a device; it must be the name of a file"),
    (("s.json", "--out", "/dev/null"), "is a folder or a device"),
    (("s.json", "--out", "o.json", "--samples", str(10**15)), "--samples is 1000000000000000; it must be at most"),
    (("s.json", "--out", "o.json", "--samples", "1"), "--samples is 1; it must be at least 2"),
    (("s.json", "--out", "o.json", "--limit", str(10**15)), "--limit is 1000000000000000; it must be at most"),
    (("s.json", "--out", "o.json", "--limit", "0"), "--limit is 0; it must be at least 1"),
    (("s.json", "--out", "o.json", "--seed", "-1"), "--seed is -1; it must be at least 0"),
    (("s.json", "--out", "o.json", "--seed", "x"), "is 'x': input should be a valid integer"),
    (("none.json", "--out", "o.json"), "'none.json' does not exist"),
    (("sub", "--out", "o.json"), "'sub' is a folder"),
    (("/dev/zero", "--out", "o.json"), "'/dev/zero' is no file"),
    (("pipe", "--out", "o.json"), "'pipe' is no file"),
    (("s.json",), "--out"),
]
FORKS = [
    (("toy", "--steps", str(10**30)), "--steps is"),
    (("toy", "--steps", "0"), "--steps is 0; it must be at least 1"),
    (("toy", "--games", str(10**12)), "--games is 1000000000000; it must be at most"),
    (("toy", "--branches", str(10**12)), "--branches is 1000000000000; it must be at most"),
    (("toy", "--seed", "-3"), "--seed is -3; it must be at least 0"),
    (("toy", "--seed", "1.5"), "--seed is '1.5': input should be a valid integer"),
    (("toy", "--data", "x"), "the sandbox 'toy' reads no data"),
    (("toyy",), "'toyy'; did you mean 'toy'"),
    (("household", "--data", "nowhere"), "'nowhere' does not exist"),
    (("household", "--data", "$NOT_SET_HERE/x"), "names an environment variable that is not set"),
    (("webshop", "--data", "sub"), "holds no small WebShop catalogue"),
    ((), "Missing argument 'sandbox'"),
]
TRACES = [
    (b"{}", "must hold a list of episodes"),
    (b"[]", "holds no steps"),
    (b"[1]", "[0] is 1; it must be a mapping with the fields goal, obs0, steps"),
    (
        json.dumps([{"goal": 0, "obs0": "a", "steps": [5]}]).encode(),
        "[0].steps[0] is 5; it must be a mapping with the fields action",
    ),
    (json.dumps([{"goal": "0", "obs0": "a", "steps": []}]).encode(), "[0].goal is '0'; it must be a whole number"),
    (json.dumps([{"goal": -1, "obs0": "a", "steps": []}]).encode(), "[0].goal is -1; it must be at least 0"),
    (json.dumps([{"goal": 0, "obs0": 1, "steps": []}]).encode(), "[0].obs0 is 1; it must be text"),
    (
        json.dumps([{"goal": 0, "obs0": "a", "steps": [{**TRACE, "action": None}]}]).encode(),
        "[0].steps[0].action is None; it must be text",
    ),
    (
        json.dumps([{"goal": 0, "obs0": "a", "steps": [{**TRACE, "done": 1}]}]).encode(),
        "[0].steps[0].done is 1; it must be true or false",
    ),
    (json.dumps([{"goal": 0, "steps": []}]).encode(), "[0]: the field 'obs0' is missing"),
    (DEEP.encode(), "nested too deeply"),
    (b"\xff\xfe", "is not text in UTF-8"),
    (gzip.compress(b"[]", mtime=0)[:-6], "cannot be read: its end is missing"),
    (gzip.compress(b"[]" * 90, mtime=0)[:12] + b"\xff\xff\xff" + gzip.compress(b"[]" * 90, mtime=0)[15:], "cannot be read"),
    (b"\x1f\x8bno", "cannot be read"),
]
SHOW = [
    (b"\xff\xfe\n", (), "is not text in UTF-8"),
    (b"{}\n", (), "line 1: update is missing"),
    (b"[]\n", (), "line 1: an object with"),
    (b"[" * 100_000 + b"\n", (), "line 1 is nested too deeply"),
    (b'{"update": 1, "update": 2}\n', (), "the key 'update' stands there twice"),
    (b'{"update": NaN}\n', (), "NaN is not JSON"),
    (b"", ("--tree", "0"), "there is no tree 0"),
    (b"", ("--tree", "x"), "is 'x': input should be a valid integer"),
    (b"", ("--html", "x.html"), "--html needs the number of a tree"),
    (b"", ("--tree", "0", "--html", "run"), "--html 'run' is a folder"),
    (b"", ("--tree", "0", "--html", "run/trees.jsonl"), "--html 'run/trees.jsonl' must end with .html or .htm"),
    (b"", ("--tree", "0", "--png", "run/config.yaml"), "--png 'run/config.yaml' must end with .png"),
    (b"", ("--tree", "0", "--png", "x.jpg"), "--png 'x.jpg' must end with .png, which is what is written"),
    (b"", ("--tree", "0", "--png", "x"), "--png 'x' must end with .png"),
    (b"", ("--tree", "0", "--png", "run/trees.jsonl/x.png"), "is no folder that can be written to"),
    (b"", ("--tree", "0", "--png="), "--png is '': it must be a path"),
    (b'{"update": 1, "meth', (), "line 1 has no end: the run is still writing it, or was killed"),
    (b'{"update": 1, "meth', ("--tree", "0"), "line 1 has no end"),
]
ROWS = {
    "instance_id": "a__b-1",
    "repo": "a/b",
    "version": "1",
    "base_commit": "x",
    "created_at": "2020",
    "problem_statement": "p",
}
ROWS |= {"patch": "", "test_patch": "", "FAIL_TO_PASS": "[]", "PASS_TO_PASS": "[]"}
SWEBENCH = [
    (b"", (), "holds no rows"),
    (b"\xff", (), "is not text in UTF-8"),
    (b"{", (), "line 1 is not JSON"),
    (b"[1]", (), "it must be an object"),
    (DEEP.encode(), (), "nested too deeply"),
    (json.dumps(ROWS | {"repo": 5}).encode(), (), "the field 'repo' is 5; it must be text"),
    (json.dumps(ROWS | {"FAIL_TO_PASS": DEEP}).encode(), (), "it must be a list of tests"),
    (json.dumps(ROWS | {"FAIL_TO_PASS": "[1]"}).encode(), (), "it must be a list of tests"),
    (json.dumps(ROWS | {"FAIL_TO_PASS": "[]"}).encode(), (), "FAIL_TO_PASS is empty"),
    (json.dumps(ROWS | {"FAIL_TO_PASS": '["t"]'}).encode(), (), "unknown instance 'psf__requests-6028'"),
    (b"", ("--release", "1.0"), "give one of them"),
    (b"", ("--seconds", "nan"), "--seconds is 'nan': input should be"),
    (b"", ("--seconds", "0"), "--seconds"),
]
REPRODUCE = [
    (("run", "--preset", "mine.yaml", "--sandbox", "toy"), preset("lr: 0.1", "lr: 0.1, eval_splits: []"), "eval_splits is []"),
    (
        ("run", "--preset", "mine.yaml", "--sandbox", "toy"),
        preset("tasks_per_update: 2", "tasks_per_update: 65"),
        "there are 64",
    ),
    (("run", "--preset", "mine.yaml", "--sandbox", "toy"), preset("returns: [0, 1, 1, 0]", "returns: [0]"), "not a power"),
    (
        ("run", "--preset", "mine.yaml", "--sandbox", "toy"),
        preset("label: one", "label: warm start"),
        "'warm start' is the name",
    ),
    (
        ("run", "--preset", "mine.yaml", "--sandbox", "toy"),
        preset("label: one", "label: '[!]'"),
        "has no letter a-z and no digit",
    ),
    (
        ("run", "--preset", "mine.yaml", "--sandbox", "toy"),
        preset("{label: one, method: rloo}", "{label: a b, method: rloo}, {label: a-b, method: grpo}"),
        "the labels 'a b' and 'a-b' differ in no letter and no digit",
    ),
    (("run", "--preset", "smoke", "--sandbox", "toy", "--jobs", "0"), {}, "--jobs"),
    (("run", "--preset", "smoke", "--sandbox", "toy", "--jobs", str(10**9)), {}, "--jobs"),
    (
        ("run", "--preset", "smoke", "--sandbox", "toy", "--timeout", "nan"),
        {},
        "--timeout is nan; it must be a number of hours",
    ),
    (
        ("run", "--preset", "smoke", "--sandbox", "toy", "--timeout", "inf"),
        {},
        "--timeout is inf; it must be a number of hours",
    ),
    (("run", "--preset", "smoke", "--sandbox", "toy", "--runs", "file"), {"file": ""}, "--runs 'file'"),
    (("run", "--preset", "smoke", "--sandbox", "toy", "--results", "file/x"), {"file": ""}, "--results 'file/x'"),
    (("run", "--preset", "smoke", "--sandbox", "toy", "--only", "rloo"), {}, "unknown row of preset smoke: 'rloo'"),
    (("tables", "--preset", "smok"), {}, "'smok'; did you mean 'smoke'"),
    (("run", "--preset", "quick", "--sandbox", "toy"), {}, "has no settings for sandbox 'toy'"),
]
OTHER = [
    (trained("--seed", "-1"), {}, "--seed is -1; it must be at least 0"),
    (trained("--seed", str(2**32)), {}, "--seed is 4294967296; it must be at most 4294967295"),
    (trained("--seed", "one"), {}, "--seed is 'one': input should be a valid integer"),
    (trained("--checkpoint", "oldest"), {}, "'oldest'"),
    (trained("--out", "file"), {"file": ""}, "--out 'file'"),
    (trained("--out="), {}, "--out is '': it must be a path; . is the folder that you are in"),
    (trained("--out", ""), {}, "--out is '': it must be a path"),
    (trained("--out", "a\0b"), {}, "'a\\x00b' is no path; a name cannot hold a NUL"),
    (("bpo", "exact", "s.json", "--out", "a\0b"), {"s.json": SPEC}, "'a\\x00b' is no path; a name cannot hold a NUL"),
    (
        MINE,
        preset("kind: tabular", "kind: hf, model: ./sub"),
        "holds a config.json",
    ),
    (MINE, preset("kind: tabular", "kind: hf, model: mine.yaml"), "model 'mine.yaml' is no folder of a model"),
    (trained("--out", "r/one"), RUN_FOLDER, "is the folder of a run; name the folder that holds it"),
    (trained("--out", "r/one/deeper"), RUN_FOLDER, "is the folder of a run; name the folder that holds it"),
    (
        trained(told="README.md"),
        {"README.md": "# x"},
        "a file of one must end with .yaml or .yml",
    ),
    (trained(told="./smoke"), {}, "'./smoke' is none of the package's"),
    (trained(told=""), {}, "unknown preset ''"),
    (MINE, preset("methods: {}", "methods: {}\nsections_of: nope"), "unknown sections_of in mine.yaml: 'nope' (known:"),
    (trained("--dry-run", told="mine.yaml"), GPU, "of this kind: name another, like cpu; all else of this run is valid"),
    (
        trained("--dry-run", told="mine.yaml"),
        {"mine.yaml": GPU["mine.yaml"].replace("tasks_per_update: 2", "tasks_per_update: 65")},
        "65; there are 64 training tasks",
    ),
    (
        MINE,
        preset("eval_tasks: 4", "eval_tasks: 4, eval_splits: [nope]"),
        "unknown split 'nope' (known: panel, train",
    ),
    (MINE, preset("eval_tasks: 4", "eval_tasks: 4, curve_split: ''"), "unknown split ''"),
    (("bpo", "exact", "", "--out", "o.json"), {}, "it must be a path"),
    (("bpo", "show", ""), {}, "it must be a path"),
    (("bpo", "check-fork", "household", "--data="), {}, "--data is '': it must be a path"),
    (trained("--set", "returns=8", "--set", "returns=13"), {}, "returns is set twice; give it once"),
    (trained(told="none.yaml"), {}, "'none.yaml' does not exist"),
    (trained(told="sub.yaml"), {"sub.yaml/x": ""}, "'sub.yaml' is a folder"),
    (trained(told="/dev/stdin.yaml"), {}, "does not exist"),
    (trained(method="rlo"), {}, "'rlo'; did you mean 'rloo'"),
    (trained(sandbox="../toy"), {}, "'../toy'; did you mean 'toy'"),
    (trained("--nope"), {}, "--nope"),
    (MINE, preset("methods: {}", "methods: {}\nmethods: {}"), "the key 'methods' stands there twice"),
    (("bpo", "methods", "bpoo"), {}, "'bpoo'; did you mean 'bpo'"),
    (("bpo", "methods", "--preset", "quick"), {}, "needs a method"),
    (("bpo", "methods", "bpo", "--preset", "mine.yaml"), {"mine.yaml": "\x00"}, "is not valid YAML"),
    (("bpo", "nope"), {}, "nope"),
    (("bpo", "swebench", "check", "x"), {}, "the rows of SWE-bench Verified are needed"),
    (("bpo", "show", "nowhere"), {}, "is no folder"),
    (("bpo", "webshop-replay", "none.gz", "--data", "sub"), {}, "'none.gz' does not exist"),
    (("bpo", "webshop-replay", "sub", "--data", "sub"), {}, "'sub' is a folder"),
]


def item(**changes) -> str:
    raw = {"asin": "B1", "name": "n", "full_description": "d", "small_description": ["b"], "pricing": "$2"}
    return json.dumps([raw | {"product_category": "a › b", "query": "q", "customization_options": ""} | changes])


def shop(items: str, attributes: str = "{}") -> dict[str, str]:
    nouns = {"shop/title_nouns_spacy3.8.json.gz": '{"B1": []}'}
    return nouns | {"shop/items_shuffle_1000.json": items, "shop/items_ins_v2_1000.json": attributes}


SHOPS = [
    (shop(item(name=5)), "entry 0: name is 5; it must be text"),
    (shop(item(asin=5)), "it must be an object with an asin"),
    (shop(item(pricing=5)), "entry 0: pricing is 5; it must be text"),
    (shop(item(pricing="$1.2.3")), "pricing is '$1.2.3'; it must hold amounts"),
    (shop(item(small_description=5)), "entry 0: small_description"),
    (shop(item(customization_options=[1])), "entry 0: customization_options"),
    (shop("[5]"), "entry 0 is 5; it must be an object"),
    (shop("{}"), "is no list of products"),
    (shop(DEEP), "nested too deeply"),
    (shop(item(), "[]"), "is no JSON object by asin"),
    (shop(item(), '{"B1": 5}'), "B1 is 5; it must be a mapping"),
    (shop(item(), '{"B1": {"attributes": "soft"}}'), "B1: attributes is 'soft'; it must be a list"),
    (
        shop(item(), '{"B1": {"attributes": ["a"], "instruction": "i", "instruction_attributes": []}}'),
        "instruction_attributes is empty",
    ),
    (shop(item(), '{"B1": {}, "B1": {}}'), "the key 'B1' stands there twice"),
]
CASES = [
    *((trained("--set", pair, "--dry-run", method=method), {}, said) for pair, (method, said) in SET.items()),
    *((MINE, preset(old, new), said) for old, new, said in PRESETS),
    *((MINE, {"mine.yaml": data}, said) for data, said in FILES),
    *((("bpo", "exact", "s.json", "--out", "o.json"), {"s.json": spec}, said) for spec, said in SPECS),
    *((("bpo", "exact", *told), {"s.json": SPEC, "sub/x": ""}, said) for told, said in EXACT),
    *((("bpo", "check-fork", *told), {"sub/x": ""}, said) for told, said in FORKS),
    *((("bpo", "webshop-replay", "t.json", "--data", "sub"), {"t.json": data, "sub/x": ""}, said) for data, said in TRACES),
    *((("bpo", "show", "run", *told), {"run/trees.jsonl": data, "sub/x": ""}, said) for data, told, said in SHOW),
    *(
        (("bpo", "swebench", "check", "psf__requests-6028", "--repo", "r", "--rows", "r.jsonl", *told), {"r.jsonl": data}, said)
        for data, told, said in SWEBENCH
    ),
    *((("bpo", "check-fork", "webshop", "--data", "shop"), files, said) for files, said in SHOPS),
    *((("reproduce", *told), files, said) for told, files, said in REPRODUCE),
    *((told, {"sub/x": "", **files}, said) for told, files, said in OTHER),
]


def contents(folder: Path) -> dict[str, bytes | None]:
    found = sorted(folder.rglob("*"))
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in found}


def called(app, name: str, arguments: list[str], monkeypatch, capsys) -> tuple[int, str, float]:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    start = time.process_time()
    with pytest.raises(SystemExit) as ended:
        bpo.cli.run_app(app, name)
    return ended.value.code, capsys.readouterr().err, time.process_time() - start


def test_there_are_at_least_150_cases():
    assert len(CASES) >= 150
    assert {told[0] for told, _, _ in CASES} == {"bpo", "reproduce"}


@pytest.mark.parametrize(
    ("told", "files", "said"), CASES, ids=lambda value: " ".join(value)[:60] if type(value) is tuple else ""
)
def test_a_command_refuses_in_one_sentence_and_writes_nothing(told, files, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SWEBENCH_ROWS", raising=False)
    for name, data in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    if "link.json" in told:
        (tmp_path / "link.json").symlink_to("s.json")
    if "hard.json" in told:
        (tmp_path / "hard.json").hardlink_to(tmp_path / "s.json")
    if "pipe" in told:
        import os

        os.mkfifo("pipe")
    before = contents(tmp_path)
    app = {"bpo": bpo.cli.app, "reproduce": reproduce.__main__.app}[told[0]]
    code, error, seconds = called(app, told[0], list(told[1:]), monkeypatch, capsys)
    assert code == 2, error
    assert said in error
    assert error.startswith(f"{told[0]}: ")
    assert error.count("\n") == 1
    assert error.rstrip("\n").isprintable()
    assert len(error) < 2_000
    assert seconds < SOON
    assert contents(tmp_path) == before


def config(**changes) -> RunConfig:
    values = {
        "method": "rloo",
        "parameters": {},
        "sandbox": "toy",
        "sandbox_options": {"returns": [0, 1, 1, 0]},
        "policy": PolicySettings(kind="tabular"),
        "warm_start": None,
        "settings": Settings(updates=1, tasks_per_update=2, curve_tasks=4, eval_tasks=4),
    }
    return RunConfig(**(values | changes))


API = [
    (lambda: checked(config(seed=-1)), "seed is -1; it must be at least 0"),
    (lambda: checked(config(seed=1.5)), "seed is 1.5; it must be a whole number"),
    (lambda: checked(config(method=["rloo"])), "unknown method"),
    (lambda: checked(config(settings=Settings(lr=float("nan")))), "settings.lr is nan; it must be a finite number"),
    (lambda: checked(config(settings=Settings(updates=-1))), "settings.updates is -1"),
    (lambda: checked(config(settings=Settings(eval_splits=()))), "settings.eval_splits is []"),
    (lambda: checked(config(policy=PolicySettings(kind="table"))), "'table'"),
    (lambda: checked(config(policy=PolicySettings(device="meta"))), "device is 'meta'"),
    (lambda: checked(config(warm_start=WarmStart(games=0))), "warm_start.games is 0"),
    (lambda: checked(config(sandbox_options={"returns": [0, float("nan")]})), "returns[1] is nan"),
    (lambda: check_run(config(settings=Settings(tasks_per_update=65))), "there are 64 training tasks"),
    (lambda: check_run(config(), noise_draws=-1), "noise_draws is -1; it must be at least 0"),
    (lambda: check_run(config(), noise_draws=1.5), "noise_draws is 1.5; it must be a whole number"),
    (lambda: check_run(config(), noise_draws=1, noise_tasks=0), "noise_tasks is 0; it must be at least 1"),
    (lambda: build("bpo", {"points": []}), "points is []"),
    (lambda: build("bpo", {"floor": 10**400}), "floor is 1000"),
    (lambda: build("bpo", {"lam": np.nan}), "lam is nan"),
    (lambda: build("bpo", {"selector": {}}), "selector is {}"),
    (lambda: build(None), "unknown method None"),
    (lambda: load_preset("smok"), "did you mean 'smoke'"),
    (lambda: load_preset("a\0b.yaml"), "is no name of a file"),
    (lambda: factory("toy", {"returns": 5}), "returns is 5; it must be a list"),
    (lambda: factory("toy", {"returns": [0, 1], "width": 1})(), "width is 1; it must be at least 2"),
    (lambda: factory("household", {"max_steps": float("nan")}), "max_steps is nan"),
    (lambda: factory("shell", {"tree": 5}), "tree is 5"),
    (lambda: factory("webshop", {"page_size": 0}), "page_size is 0"),
    (lambda: factory("webshop", {"colour": 1}), "'colour'"),
    (lambda: fork_check("toy", 1, 1, "x"), "reads no data"),
    (lambda: ToyTree(5), "returns is 5; it must be a list"),
    (lambda: ToyTree("ab"), "returns is 'ab'; it must be a list"),
    (lambda: ToyTree([0, 1], 1), "width is 1; it must be at least 2"),
    (lambda: ToyTree([0, 1], 2.0), "width is 2.0; it must be a whole number"),
    (lambda: ToyTree([0, None]), "returns[1] is None; it must be a number"),
    (lambda: Household(max_steps=float("nan")), "max_steps is nan; it must be a whole number"),
    (lambda: Household(max_steps=0), "max_steps is 0; it must be at least 1"),
    (lambda: Problem.from_spec({"p": [0.3], "r": [0, 10**400]}), "r[1] is 1000"),
    (lambda: Problem.from_spec([1]), "is [1]; it must be a mapping"),
    (lambda: report({"p": [0.3], "r": [0, 1], "threshold": 10**400}), "threshold is 1000"),
    (lambda: report({"p": [0.3], "r": [0, 1], "threshold": True}), "threshold is True; it must be a number"),
    (lambda: tree_log.read(Path("/dev/null")), "is no folder"),
    (lambda: read_traces(Path("/dev/zero")), "is no file"),
    (lambda: read_bytes("\0"), "is no name of a file"),
    (lambda: from_json(DEEP, "it"), "it is nested too deeply"),
    (lambda: from_json("1" * 5000, "it"), "it is not JSON"),
    (lambda: from_yaml(DEEP, "it"), "it is nested too deeply"),
    (lambda: from_yaml("{" * 100_000, "it"), "it is nested too deeply"),
    (
        lambda: check_fork(
            partial(ToyTree, [0, 1]), ["tree-00"], games=1, branches=1, steps=1, seed=0, reference=partial(ToyTree, 5)
        ),
        "5",
    ),
]


@pytest.mark.parametrize(("call", "said"), API, ids=lambda value: value[:50] if isinstance(value, str) else "")
def test_a_function_of_the_library_refuses_in_one_sentence(call, said):
    start = time.process_time()
    with pytest.raises(BadInput) as error:
        call()
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert time.process_time() - start < SOON


@pytest.mark.parametrize(
    "bad",
    [
        config(settings=Settings(tasks_per_update=65)),
        config(sandbox="household", sandbox_options={}, settings=Settings(eval_splits=("nope",)), policy=PolicySettings()),
        config(policy=PolicySettings(kind="tabular", device="cuda:99")),
        config(sandbox_options={"returns": [0]}),
        config(seed=-1),
    ],
)
def test_a_run_checks_first_what_a_dry_run_checks(bad, tmp_path):
    """No folder, no lock and no checkpoint is left of a run that could not have ended."""
    with pytest.raises(BadInput):
        check_run(bad)
    with pytest.raises(BadInput):
        run(bad, tmp_path / "runs" / "one")
    assert list(tmp_path.iterdir()) == []


def test_a_path_may_be_an_option_and_is_the_same_configuration_as_its_text(tmp_path):
    (tmp_path / "json_2.1.1").mkdir()
    one, two = (config(sandbox="household", sandbox_options={"data": data}) for data in (tmp_path, str(tmp_path)))
    assert one.hash == two.hash
    assert one.plain() == two.plain()


def test_a_device_of_this_machine_is_taken():
    found = check_run(config(policy=PolicySettings(kind="tabular", device="cpu")))
    assert found["train"] == 64
    if torch.cuda.is_available():
        assert check_run(config(policy=PolicySettings(kind="tabular", device="cuda:0"))) == found


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("1E5", 1e5),
        ("1_000", 1000),
        ("0x10", 16),
        ("0o17", 15),
        ("0b11", 3),
        ("+3", 3),
        ("-0", 0),
        (".5", 0.5),
        ("5.", 5.0),
        ("0.10", 0.1),
        ("off", "off"),
        ("no", "no"),
        ("on", "on"),
        ("yes", "yes"),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("1:30", "1:30"),
        ("2026-11-30", "2026-11-30"),
        ("0x", "0x"),
    ],
)
def test_a_word_is_what_a_person_means_by_it(text, value):
    for read in (scalar(text), from_yaml(f"x: {text}", "it")["x"]):
        assert read == value
        assert type(read) is type(value)
    if value is not None:
        quoted = from_yaml(f"x: '{text}'", "it")["x"]
        assert quoted == text


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=30))
def test_any_text_is_read_or_refused(text):
    """Of --set and of YAML: a value that comes back is plain, and what it is spelled as is read as the same value."""
    for read in (scalar, lambda it: from_yaml(it, "it")):
        try:
            value = read(text)
        except BadInput:
            continue
        assert isinstance(value, type(None) | bool | int | float | str | list | dict)
        if isinstance(value, int | float) and not isinstance(value, bool) and value == value and abs(value) != float("inf"):
            assert scalar(repr(value)) == value


@settings(deadline=None, max_examples=200)
@given(st.one_of(st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), st.booleans(), st.none()))
def test_a_value_that_yaml_writes_is_read_as_it_was(value):
    import yaml

    assert from_yaml(yaml.safe_dump({"x": value}), "it") == {"x": value}


@settings(deadline=None, max_examples=300)
@given(
    st.one_of(
        st.text(max_size=30),
        st.from_regex(r"[0-9]{1,4}e?[0-9_.]{1,5}", fullmatch=True),
    )
)
def test_a_text_that_we_write_is_read_as_it_was(text):
    """Also one that spells a number: a hash like 5e893467, a commit like 0123456."""
    assert from_yaml(to_yaml({"x": text, "y": [text]}), "it") == {"x": text, "y": [text]}


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("tree_training", ["--repeats", "0"], "'0' cannot be used; it must be a whole number from 1"),
        ("tree_training", ["--repeats", "x"], "'x' cannot be used"),
        ("tree_training", ["--json", "/dev/null/where.json"], "/dev/null is no folder that can be written to"),
        ("tree_training", ["--json", ""], "must be the name of a file"),
        ("tree_rollout", ["--tasks", "1e3"], "'1e3' cannot be used"),
        ("tree_rollout", ["--model", "huge"], "'huge'"),
        ("shell", ["--files", "-5"], "'-5' cannot be used"),
        ("shell", ["--megabytes", "9" * 30], "cannot be used"),
        ("shell", ["--tier", "Z"], "Z"),
        ("household", ["--games", "0"], "'0' cannot be used"),
        ("household", ["--leak", "nan"], "'nan' cannot be used"),
        ("household", ["--data", "nowhere"], "'nowhere' does not exist"),
        ("webshop", ["--products", "10", "-1"], "'-1' cannot be used"),
        ("webshop", ["--products", "10", "--data", "nowhere"], "nowhere"),
        ("smollm2", ["--rank", "0"], "'0' cannot be used"),
        ("floor", ["--updates", "0"], "'0' cannot be used"),
        ("floor", ["--policy", "nowhere"], "'nowhere' must be the folder of a saved policy"),
        ("floor", ["--against", "nowhere"], "it must be a commit of this repository"),
        ("smollm2", ["--json", "."], "must be the name of a file"),
    ],
)
def test_a_benchmark_refuses_in_one_sentence(name, arguments, said, tmp_path, monkeypatch, capsys):
    import importlib
    import runpy

    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *arguments])
    importlib.invalidate_caches()
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(ROOT / "benchmarks" / f"{name}.py"), run_name="__main__")
    error = capsys.readouterr().err
    assert ended.value.code == 2
    assert said in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_path_with_a_tilde_is_below_the_home(tmp_path, monkeypatch, capsys):
    """A shell leaves that of --out=~/o.json as it is."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "s.json").write_text(SPEC)
    code, _, _ = called(bpo.cli.app, "bpo", ["exact", "s.json", "--out=~/o.json"], monkeypatch, capsys)
    assert (code, (tmp_path / "home" / "o.json").is_file()) == (0, True)


@pytest.mark.parametrize("told", ["file", "file/deeper", "a\0b"])
def test_a_cache_that_cannot_be_used_is_named_before_a_run_is_begun(told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(bpo.cache.os, "environ", {**bpo.cache.os.environ, "BPO_CACHE": told})
    sections = config(sandbox="household", sandbox_options={}, policy=PolicySettings(), warm_start=WarmStart(games=1))
    for call in (bpo.cache.cache_dir, lambda: run(sections, tmp_path / "runs"), lambda: check_run(sections)):
        with pytest.raises(BadInput, match="BPO_CACHE"):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_to_write_has_its_folders_made(tmp_path, monkeypatch, capsys):
    """By every command: a run's folder, moments, pages and pictures (tests/test_cli_show.py), and what benchmarks print."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.json").write_text(SPEC)
    code, error, _ = called(bpo.cli.app, "bpo", ["exact", "s.json", "--out", "new/folder/o.json"], monkeypatch, capsys)
    assert (code, "bpo: " in error) == (0, False), error
    assert json.loads((tmp_path / "new" / "folder" / "o.json").read_text())["J"] > 0
