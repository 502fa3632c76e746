"""Pages of ``report`` in a browser: quiet, whole, readable at both widths, light, dark, printed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import EXAMPLE, SMALL, run
from tests.report.browser import Browser, browser

WIDTHS = (1280, 390)
SMALLEST_PX = 11.5
"""Letters below this are hard to read on paper and screen."""
CONTRAST = 4.5
"""WCAG 2.2, criterion 1.4.3, of text against what is behind it."""
PLAN_FIGURES = {"plans by time and cost", "memory of a GPU by stage", "parts of a step",
                "pipeline timeline", "what moves the optimum"}  # fmt: skip
COST = "cost of the fastest plan, USD"
SWEEP_FIGURES = {
    f"{COST} over model and training.global_batch",
    f"{COST} along cluster.nodes: model llama2-7b",  # 70B fits one of the sizes only
}
HOSTILE = "</script><script>document.title='owned'</script>\"'&<img src=x onerror=alert(1)>"

READING = """(() => {
  const shown = e => e.checkVisibility() && e.getClientRects().length > 0;
  const scale = e => { const s = e.ownerSVGElement;
    return s ? s.getBoundingClientRect().width / s.viewBox.baseVal.width : 1 };
  const leaves = [...document.querySelectorAll('body *')].filter(e => shown(e) &&
    [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) &&
    !['STYLE', 'SCRIPT', 'TITLE', 'title'].includes(e.tagName));
  const place = e => { const r = e.getBoundingClientRect();
    return [r.left, r.top, r.right, r.bottom] };
  const rgb = c => c.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => { const f = v => (v /= 255) <= 0.04045 ? v / 12.92
    : ((v + 0.055) / 1.055) ** 2.4; return 0.2126 * f(r) + 0.7152 * f(g) + 0.0722 * f(b) };
  const behind = e => { for (; e; e = e.parentElement) {
    const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c }
    return [255, 255, 255] };
  const ratio = e => { const s = getComputedStyle(e);
    const [a, b] = [light(rgb(e.ownerSVGElement ? s.fill : s.color)), light(behind(e))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) };
  return {
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    figures: [...document.querySelectorAll('figure svg')].filter(shown)
      .map(e => e.getAttribute('aria-label')),
    small: leaves.map(e => [parseFloat(getComputedStyle(e).fontSize) * scale(e), e.textContent])
      .filter(([size]) => size < SMALLEST),
    faint: leaves.map(e => [ratio(e), e.textContent]).filter(([r]) => r < CONTRAST),
    clipped: [...document.querySelectorAll('.card, .tile, dd, dt, p, figcaption, h1, h2, h3')]
      .filter(e => shown(e) && e.scrollWidth > e.clientWidth + 1).map(e => e.textContent),
    outside: [...document.querySelectorAll('figure svg')].filter(shown).flatMap(svg => {
      const [left, , right] = place(svg);
      return [...svg.querySelectorAll('text')].map(t => [...place(t), t.textContent])
        .filter(t => t[0] < left - 1 || t[2] > right + 1) }),
    texts: [...document.querySelectorAll('figure svg')].filter(shown)
      .map(svg => [...svg.querySelectorAll('text')].map(t => [...place(t), t.textContent])),
    blocks: [...document.querySelectorAll('.card h3, .card dt, .card dd, .tile')].filter(shown)
      .map(e => [...place(e), e.textContent]),
  };
})()""".replace("SMALLEST", str(SMALLEST_PX)).replace("CONTRAST", str(CONTRAST))
"""What a reader sees: sizes in pixels of the screen, and rectangles of texts."""


TORNADO = """(() => {
  const svg = [...document.querySelectorAll('svg[aria-label="what moves the optimum"]')]
    .find(e => e.checkVisibility());
  const place = e => { const r = e.getBoundingClientRect();
    return [r.left, r.top, r.right, r.bottom] };
  const some = name => [...svg.querySelectorAll(name)];
  return {zero: place(svg.querySelector('.axis'))[0], texts: some('text').map(place),
    bars: some('rect').filter(e => e.querySelector('title'))
      .map(e => [...place(e), e.querySelector('title').textContent])};
})()"""
"""Where the bars of the tornado are, what each says, where nothing changes, and all texts."""


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture(scope="module")
def pages(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The page of 70B on 64 GPUs, and of a small sweep; only where there is a browser."""
    folder = tmp_path_factory.mktemp("pages")
    plan, base, store = folder / "plan.json", folder / "base.yaml", folder / "s.sqlite"
    assert run("solve", EXAMPLE, "--pareto", "-o", str(plan)).exit_code == 0
    base.write_text(
        "model: llama3-8b\ncluster: {gpu: h100, nodes: 1, price: 2}\n"
        "training: {seq_len: 4096, global_batch: 64seq, tokens: 1B}\n"
        "sweep: {cluster.nodes: [1, 2, 4], model: [llama2-7b, llama3-70b],\n"
        "        training.global_batch: [64seq, 256seq]}\n"
    )
    assert run("sweep", str(base), "-o", str(store), "--engine=serial").exit_code == 0
    found = {"plan": folder / "plan.html", "sweep": folder / "sweep.html"}
    for name, source in (("plan", plan), ("sweep", store)):
        assert run("report", str(source), "--html", str(found[name])).exit_code == 0
        assert found[name].stat().st_size <= 1_000_000
    return found


def overlapping(areas: list[list[Any]]) -> list[tuple[str, str]]:
    """Pairs of texts that cover each other by more than two pixels both ways."""
    return [
        (one[4], other[4])
        for n, one in enumerate(areas)
        for other in areas[:n]
        if min(one[2], other[2]) - max(one[0], other[0]) > 2
        and min(one[3], other[3]) - max(one[1], other[1]) > 4
    ]


def readable(chromium: Browser, figures: set[str]) -> None:
    seen = chromium.value(READING)
    assert seen["overflow"] == 0
    assert set(seen["figures"]) == figures
    assert len(seen["figures"]) == len(figures)
    for fault in ("small", "faint", "clipped", "outside"):
        assert seen[fault] == [], fault
    for texts in (*seen["texts"], seen["blocks"]):
        assert overlapping(texts) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["plan", "sweep"])
def test_the_page_is_quiet_and_readable(
    chromium: Browser, pages: dict[str, Path], name: str, width: int, dark: bool
) -> None:
    chromium.open(pages[name], width, dark)
    readable(chromium, PLAN_FIGURES if name == "plan" else SWEEP_FIGURES)
    background = chromium.value("getComputedStyle(document.body).backgroundColor")
    assert background == ("rgb(17, 24, 39)" if dark else "rgb(255, 255, 255)")
    assert chromium.requests() == []
    assert chromium.complaints() == []


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_works_without_javascript(
    chromium: Browser, pages: dict[str, Path], width: int
) -> None:
    chromium.open(pages["plan"], width, scripts=False)
    readable(chromium, PLAN_FIGURES)
    # Folded parts open by the browser alone.
    chromium.driver.find_element("css selector", "details summary").click()
    assert chromium.value("document.querySelector('details').open")
    assert chromium.value("document.querySelector('details table').checkVisibility()")
    assert chromium.requests() == []
    assert chromium.complaints() == []


@pytest.mark.parametrize("width", WIDTHS)
def test_bars_point_the_way_of_their_sign(
    chromium: Browser, pages: dict[str, Path], width: int
) -> None:
    chromium.open(pages["plan"], width)
    seen = chromium.value(TORNADO)
    assert {"+", "−"} <= {said[-1].rpartition(": ")[2][0] for said in seen["bars"]}
    for left, top, right, bottom, said in seen["bars"]:
        if said.rpartition(": ")[2].startswith("−"):
            assert right <= seen["zero"] + 2, said
        else:
            assert left >= seen["zero"] - 2, said
        for text in seen["texts"]:
            across = min(right, text[2]) - max(left, text[0])
            down = min(bottom, text[3]) - max(top, text[1])
            assert across <= 1 or down <= 3, said  # no bar covers a text


@pytest.mark.parametrize("name", ["plan", "sweep"])
def test_the_page_prints(chromium: Browser, pages: dict[str, Path], name: str) -> None:
    chromium.open(pages[name], width=720, media="print")  # A4 less its margins, at 96 dpi
    seen = chromium.value(READING)
    assert seen["overflow"] == 0
    assert set(seen["figures"]) == (PLAN_FIGURES if name == "plan" else SWEEP_FIGURES)
    assert seen["clipped"] == seen["outside"] == []
    folded = (
        "[...document.querySelectorAll('details > *')].filter(e => !e.checkVisibility()).length"
    )
    assert chromium.value(folded) == 0  # what is folded on a screen is open on paper
    assert chromium.pages().startswith(b"%PDF")


def test_hostile_names_do_nothing(chromium: Browser, tmp_path: Path) -> None:
    plan, page = tmp_path / "plan.json", tmp_path / "page.html"
    assert run("solve", *SMALL, "--stages=even", "-o", str(plan)).exit_code == 0
    data = json.loads(plan.read_text())
    data["problem"]["model"]["name"] = HOSTILE + "x" * 10_000
    data["problem"]["cluster"]["name"] = HOSTILE
    data["notes"] = [HOSTILE + "y" * 10_000]
    plan.write_text(json.dumps(data))
    args = ("report", str(plan), "--no-sensitivity", "--html", str(page))
    result = run(*args)
    assert result.exit_code == 0, result.stderr
    assert page.stat().st_size <= 1_000_000
    chromium.open(page, 390)
    assert chromium.value("document.title").startswith("</script><script>")
    assert chromium.value("document.images.length") == 1  # the drawing of the cluster
    assert chromium.value("document.scripts.length") == 1
    assert chromium.value("document.documentElement.scrollWidth") == 390
    assert chromium.requests() == []
    assert chromium.complaints() == []
