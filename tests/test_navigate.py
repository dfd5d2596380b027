"""The count of modules and climbs, on a package whose answer can be read off."""

from __future__ import annotations

import importlib.util
import sys

from places import ROOT

spec = importlib.util.spec_from_file_location("navigate", ROOT / "benchmarks" / "navigate.py")
navigate = importlib.util.module_from_spec(spec)
sys.modules["navigate"] = navigate
spec.loader.exec_module(navigate)

FILES = {
    # load makes the thing; use is given it; then it is read once more here.
    "cli.py": "from bpo.load import load\nfrom bpo.use import Box\n\ndef train():\n    config = load()\n    box = Box(config)\n"
    "    box.open()\n    print(config)\n",
    "load.py": "def load():\n    config = {}\n    return config\n",
    # A method of an object that was made with the thing, and another module below it.
    "use.py": "from bpo import deep\n\nclass Box:\n    def __init__(self, config):\n        self.config = config\n\n"
    "    def open(self):\n        deep.last(self.config.settings)\n",
    "deep.py": "def last(settings):\n    return settings\n",
    "other.py": "def never(config):\n    return config\n",
}


def test_modules_are_those_that_use_the_thing_and_climbs_are_returns(tmp_path):
    (tmp_path / "bpo").mkdir()
    for name, text in {**FILES, "__init__.py": ""}.items():
        (tmp_path / "bpo" / name).write_text(text)
    reader = navigate.counted(tmp_path, "config", "bpo.cli:train")
    assert reader.modules == ["bpo.cli", "bpo.load", "bpo.use", "bpo.deep"]
    # Back in cli after load, after Box, and after open.
    assert reader.climbs == 3
    assert [line.strip() for line in reader.route if not line.strip().startswith("back")] == [
        "bpo.load.load",
        "bpo.use.Box.__init__",
        "bpo.use.Box.open",
        "bpo.deep.last",
    ]


def test_a_thing_that_is_nowhere_enters_no_module():
    reader = navigate.counted(ROOT, "zeppelin", "bpo.cli:train")
    assert (reader.modules, reader.climbs) == ([], 0)
