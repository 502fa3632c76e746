"""The SVG of a cluster: every level once, alike parts counted."""

from __future__ import annotations

import os
import re
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from solver.report.drawing import WIDEST, to_svg
from topology import Cluster, ClusterSpec

PICTURE = Path(__file__).parents[2] / "docs" / "topology.svg"
PODS = {"gpu": "h100", "nodes": 16, "leaf_nodes": 8, "oversubscription": 4, "name": "two pods"}


def cluster(spec: Any) -> Cluster:
    return ClusterSpec.model_validate(spec).build()


def texts(svg: str) -> list[str]:
    return [str(e.text) for e in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def count(svg: str, kind: str) -> int:
    return svg.count(f'<rect class="{kind}"')


def test_eight_nodes_are_all_drawn() -> None:
    svg = to_svg(cluster("8x8xH100"))
    assert (count(svg, "gpu"), count(svg, "nvlink"), count(svg, "leaf")) == (64, 8, 1)
    assert texts(svg)[1:3] == ["64 GPUs, one leaf 50.0 GB/s", "node, NVLink 450 GB/s"]


def test_two_thousand_nodes_are_summarised() -> None:
    spec = {"gpu": "h100", "nodes": 2000, "leaf_nodes": 32, "oversubscription": 2}
    svg = to_svg(cluster(spec))
    assert len(svg) < 10_000
    assert count(svg, "gpu") == 3 * 3 * 8
    assert "and 60 more alike" in texts(svg)
    assert texts(svg).count("and 29 more alike") == 3


@pytest.mark.parametrize(
    "spec", ["1x1xh100", "36x4xgb200", "2x4xa100-pcie", "2x64xh100", "3x5xl40s", PODS,
             {"groups": [{"gpu": "h100", "nodes": 2}, {"gpu": "a100", "nodes": 40}]}],
)  # fmt: skip
def test_boxes_stay_on_the_page_and_texts_inside_their_boxes(spec: Any) -> None:
    svg = to_svg(cluster(spec))
    root = ET.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert width < 1.3 * WIDEST
    for box in root.iter("{http://www.w3.org/2000/svg}rect"):
        x, y, w, h = (float(box.attrib[name]) for name in ("x", "y", "width", "height"))
        assert min(x, y, w, h) >= 0
        assert x + w <= width
        assert y + h <= height


def test_names_cannot_break_out() -> None:
    svg = to_svg(cluster({"gpu": "h100", "nodes": 1, "name": "<b>&\"'"}))
    assert texts(svg)[0].startswith("<b>&\"'")
    assert not re.search(r"<b>", svg)


def test_the_picture_of_the_docs_is_what_the_command_draws() -> None:
    """Set SHARDPLAN_GOLDEN=1 to draw it anew."""
    svg = to_svg(cluster(PODS))
    if os.environ.get("SHARDPLAN_GOLDEN"):
        PICTURE.write_text(svg, encoding="utf-8")
    assert svg == PICTURE.read_text(encoding="utf-8")
