"""The widget in a real JupyterLab in a real browser: drawn, it says what is pointed at, and folds. Skips without them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from places import BROWSER, FLAGS, ROOT

CELL = """
from bpo import select, tree_log
from bpo.credit import bpo_split
from bpo.policies.tabular import TabularPolicy
from bpo.rollout import Growth, grow
from bpo.sandboxes.toy import ToyTree
from bpo.viz.widget import show

values = [0, 1, 2, 3, 4, 5, 6, 7]
growth = Growth(select.Every(2), points=2, width=2, root=True)
(tree,), _ = grow(["tree-00"], [ToyTree(values)], TabularPolicy.uniform(values), growth, (1,))
show(tree_log.of_update(2, "bpo_split", [tree], bpo_split([tree]))[0])
"""
# Runs the open notebook once its kernel is there.
RUN_ALL = """async () => {
    const app = window.jupyterapp, pause = () => new Promise(done => setTimeout(done, 200));
    await app.restored;
    let panel;
    while (!(panel = app.shell.currentWidget) || !panel.sessionContext) await pause();
    await panel.context.ready;
    await panel.sessionContext.ready;
    while (!panel.sessionContext.session?.kernel) await pause();
    return await app.commands.execute('notebook:run-all-cells');
}"""


@pytest.fixture
def lab(tmp_path):
    """The address of a JupyterLab whose folder holds one notebook; it and its kernel end with the test."""
    for package in ("jupyterlab", "anywidget", "playwright"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    if BROWSER is None:
        pytest.skip("no Chromium is installed")
    cell = {"cell_type": "code", "id": "tree", "metadata": {}, "source": CELL, "outputs": [], "execution_count": None}
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    (tmp_path / "tree.ipynb").write_text(json.dumps({"cells": [cell], "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"]
    command += ["--ServerApp.port_retries=0", "--IdentityProvider.token=", f"--ServerApp.root_dir={tmp_path}"]
    command += ["--expose-app-in-browser"]
    settings = {"PYTHONPATH": str(ROOT), "JUPYTER_CONFIG_DIR": str(tmp_path / "config")}
    with (tmp_path / "lab.log").open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, **settings})
    try:
        address = f"http://127.0.0.1:{port}"
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{address}/api/status").close()
                break
            except OSError:
                assert server.poll() is None, (tmp_path / "lab.log").read_text()
                time.sleep(0.5)
        yield address
    finally:
        server.terminate()
        server.wait(60)


def test_the_widget_is_drawn_says_what_is_pointed_at_and_folds(lab, tmp_path):
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=BROWSER, args=FLAGS)
        window = browser.new_page(viewport={"width": 1400, "height": 1300})
        errors = []
        window.on("pageerror", lambda error: errors.append(str(error)))
        window.goto(f"{lab}/lab/tree/tree.ipynb?reset", timeout=120_000)
        window.wait_for_function("window.jupyterapp", timeout=120_000)
        assert window.evaluate(RUN_ALL)
        window.wait_for_selector(".bpo-tree [data-node='1']", timeout=120_000)
        window.eval_on_selector(".bpo-tree", "node => node.scrollIntoView({block: 'end'})")
        window.hover("[data-node='1'] .bpo-mark")
        panel = window.inner_text(".bpo-panel")
        assert "then saw" in panel
        assert "log-prob" in panel

        hidden = "nodes => nodes.filter(node => node.style.display === 'none').length"
        assert window.eval_on_selector_all(".bpo-tree [data-node]", hidden) == 0
        window.click("[data-node='1'] .bpo-mark")
        assert window.eval_on_selector_all(".bpo-tree [data-node]", hidden) > 2
        assert window.get_attribute("[data-node='1']", "aria-expanded") == "false"
        window.screenshot(path=str(tmp_path / "lab.png"))
        assert errors == []
        browser.close()
