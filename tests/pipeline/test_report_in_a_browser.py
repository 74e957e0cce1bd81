"""The report in a real browser: wide and narrow, dark and light, by keyboard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from selenium.webdriver.common.keys import Keys

from ktui.pipeline.lake.records import ReportFacts
from ktui.pipeline.report.page import FIGURES, page
from support.pipeline.browser import Browser, a_browser
from support.pipeline.report_facts import a_provenance, a_run, twice

HOSTILE = "<img src=x onerror=hacked=1><script>hacked=1</script>\"'&lt;</script>" + "long" * 40


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of this file."""
    with a_browser() as one:
        yield one


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a made-up run."""
    return _written(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of a topic whose name is long, and markup."""
    return _written(tmp_path_factory.mktemp("hostile"), topic=HOSTILE)


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run with two busy times, nine hours apart."""
    path = tmp_path_factory.mktemp("apart") / "report.html"
    path.write_text(page(twice(a_run(), hours=9), a_provenance()), encoding="utf-8")
    return path


def _written(folder: Path, partitions: int = 24, topic: str = "orders") -> Path:
    path = folder / "report.html"
    path.write_text(page(a_run(partitions, topic), a_provenance()), encoding="utf-8")
    return path


def test_every_figure_is_drawn_without_the_network_and_the_console_stays_empty(
    browser: Browser, report: Path
) -> None:
    browser.show(report)

    assert browser.ask("return document.querySelectorAll('.drawing').length") == len(FIGURES)
    assert browser.said() == []
    requests = browser.ask("return performance.getEntriesByType('resource').map((one) => one.name)")

    assert [name for name in requests if not name.startswith(("data:", "blob:"))] == []


@pytest.mark.parametrize("width", [360, 800, 1600])
def test_the_page_never_scrolls_sideways(browser: Browser, hostile: Path, width: int) -> None:
    browser.show(hostile, width=width)

    assert browser.ask("return document.documentElement.scrollWidth") <= width
    drawn = "return [...document.querySelectorAll('.drawing')].map((place) => place.clientWidth)"
    assert all(width * 0.8 <= each <= width for each in browser.ask(drawn))


@pytest.mark.parametrize("width", [360, 1600])
def test_no_figure_is_squeezed_by_its_legend(browser: Browser, report: Path, width: int) -> None:
    browser.show(report, width=width)

    sizes = browser.ask(
        "return [...document.querySelectorAll('.drawing')]"
        ".map((place) => [place.id, place._fullLayout._size.w, place._fullLayout._size.h])"
    )
    assert [each for each in sizes if each[1] < width * 0.45 or each[2] < 20] == []


A4, LETTER = (703, 1032), (725, 964)
"""What the margins of a sheet of paper leave, in pixels of a page: 96 to the inch."""


@pytest.mark.parametrize("paper", [A4, LETTER], ids=["A4", "Letter"])
@pytest.mark.parametrize("width", [400, 1600])
def test_figures_and_tables_are_printed_whole_from_any_width(
    browser: Browser, tmp_path: Path, paper: tuple[int, int], width: int
) -> None:
    """The page has figures that are higher than a sheet of paper in the window."""
    browser.show(_written(tmp_path, partitions=3000), width=width)

    with browser.on_paper(paper[0]):
        ends = "const end = (each) => each.getBoundingClientRect().right;"
        drawn = browser.ask(
            f"{ends} return [...document.querySelectorAll('.drawing')].map((place) => [place.id,"
            f" Math.max(...[...place.querySelectorAll('.main-svg')].map(end)),"
            f" place.closest('figure').getBoundingClientRect().height])"
        )
        table = browser.ask(f"{ends} return end(document.getElementById('moves-table'))")

    assert len(drawn) == len(FIGURES)
    assert [each for each in drawn if each[1] > paper[0] or each[2] > paper[1]] == []
    assert table <= paper[0]


def test_figures_are_printed_dark_on_white_and_fit_the_window_again_afterwards(
    browser: Browser, report: Path
) -> None:
    look = (
        "const place = document.getElementById('lanes-drawing');"
        "return [place._fullLayout.font.color, place._fullLayout.width]"
    )
    browser.show(report, width=400, dark=True)
    before = browser.ask(look)

    with browser.on_paper(A4[0]):
        printed = browser.ask(look)
    browser.be(400, dark=True)
    browser.wait_until(f"return JSON.stringify((() => {{ {look} }})()) === '{_json(before)}'")

    assert printed[0] == "#24292f"
    assert printed[1] > 600
    assert before[0] == "#e6e9ee"
    assert before[1] < 400


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def test_every_time_of_the_heat_map_can_be_read_in_a_narrow_window(
    browser: Browser, report: Path
) -> None:
    browser.show(report, width=400)

    texts = browser.ask(
        "const place = document.getElementById('what-if-drawing');"
        "const cell = place._fullLayout._size.w / place._fullLayout.xaxis.tickvals.length;"
        "return [...place.querySelectorAll('.heatmap-label text')].map((text) =>"
        " [parseFloat(getComputedStyle(text).fontSize), text.getBBox().width, cell])"
    )
    assert len(texts) == 16
    assert [each for each in texts if each[0] < 11 or each[1] > each[2]] == []


def test_no_bar_is_higher_than_its_lane(browser: Browser, tmp_path: Path) -> None:
    facts = a_run()
    few = tuple(one for one in facts.intervals if one.state != "electing" or one.partition % 9 == 0)
    path = tmp_path / "report.html"
    sparse = msgspec.structs.replace(facts, intervals=few)
    path.write_text(page(sparse, a_provenance()), encoding="utf-8")

    browser.show(path)

    heights = browser.ask(
        "return [...document.querySelectorAll('#lanes-drawing .point path')]"
        ".map((bar) => bar.getBBox().height)"
    )
    assert len(heights) > 100
    assert max(heights) < 20


def test_page_and_figures_switch_from_light_to_dark(browser: Browser, report: Path) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    text = "return document.getElementById('lanes-drawing')._fullLayout.font.color"
    browser.show(report, dark=False)
    light = browser.ask(ground), browser.ask(text)

    browser.be(1280, dark=True)
    browser.wait_until(f"{text} !== '{light[1]}'")

    assert light == ("rgb(251, 250, 247)", "#24292f")
    assert (browser.ask(ground), browser.ask(text)) == ("rgb(16, 20, 26)", "#e6e9ee")


def test_tab_reaches_every_usable_element(browser: Browser, report: Path) -> None:
    browser.show(report)
    usable = "a[href], button, summary, [tabindex='0']"
    count = browser.ask(
        f"window.reached = new Set(); document.addEventListener('focusin',"
        f" (event) => reached.add(event.target));"
        f" return [...document.querySelectorAll({usable!r})]"
        f".filter((one) => one.checkVisibility()).length"
    )

    browser.press(*[Keys.TAB] * count)

    missed = browser.ask(
        f"return [...document.querySelectorAll({usable!r})]"
        f".filter((one) => one.checkVisibility() && !reached.has(one)).map((one) => one.outerHTML)"
    )
    assert count > 40
    assert missed == []


def test_a_column_is_sorted_by_key_and_the_order_is_announced(
    browser: Browser, report: Path
) -> None:
    browser.show(report)
    first = "return document.querySelector('#moves-table tbody td').textContent"
    assert browser.ask(first) == "orders-7"
    browser.ask("document.querySelector('#moves-table th button').focus()")

    browser.press(Keys.ENTER)
    once = browser.ask(first)
    browser.press(Keys.ENTER)

    assert (once, browser.ask(first)) == ("orders-23", "orders-0")
    said = browser.ask("return document.getElementById('sorted').textContent")
    assert said == "Sorted by partition, ascending"
    sorts = "return document.querySelector('#moves-table th').getAttribute('aria-sort')"
    assert browser.ask(sorts) == "ascending"


def test_keys_zoom_and_pan_along_time_and_zero_resets(browser: Browser, report: Path) -> None:
    browser.show(report)
    browser.ask("document.getElementById('lag-drawing').focus()")
    shown = "return document.getElementById('lag-drawing')._fullLayout.xaxis.range.map(Date.parse)"
    whole = browser.ask(shown)

    browser.press("+")
    zoomed = browser.ask(shown)
    browser.press(Keys.ARROW_RIGHT)
    moved = browser.ask(shown)
    browser.press("0")

    assert zoomed[1] - zoomed[0] == pytest.approx((whole[1] - whole[0]) / 2, abs=2)
    assert moved[0] > zoomed[0]
    assert moved[1] - moved[0] == pytest.approx(zoomed[1] - zoomed[0], abs=2)
    assert browser.ask(shown) == whole


_ALL_RANGES = (
    "return Object.keys(drawings).filter((id) => drawings[id].alongTime)"
    ".map((id) => rangeOf(document.getElementById(`${id}-drawing`)).map(Math.round).join())"
)


def test_all_figures_over_time_show_the_time_that_one_of_them_is_zoomed_to(
    browser: Browser, report: Path
) -> None:
    browser.show(report)
    (whole,) = set(browser.ask(_ALL_RANGES))
    browser.ask("document.getElementById('lag-drawing').focus()")

    browser.press("+")
    browser.wait_until(f"{_ALL_RANGES}.every((range, _, all) => range === all[0])")
    (zoomed,) = set(browser.ask(_ALL_RANGES))
    browser.press("0")
    browser.wait_until(f"{_ALL_RANGES}.every((range) => range === '{whole}')")

    assert zoomed != whole


def test_one_cursor_goes_over_all_figures_over_time(browser: Browser, report: Path) -> None:
    browser.show(report)
    browser.ask(
        "const place = document.getElementById('lag-drawing');"
        "const box = place.getBoundingClientRect();"
        "place.dispatchEvent(new PointerEvent('pointermove',"
        " { bubbles: true, clientX: box.left + box.width / 2, clientY: box.top + 100 }))"
    )

    times = browser.ask(
        "return [...document.querySelectorAll('.cursor')].filter((one) => !one.hidden)"
        ".map((one) => one.dataset.time)"
    )
    count = browser.ask("return alongTime.length")
    assert len(times) == count > 6
    assert set(times) == {times[0]}
    assert times[0].startswith("2026-05-04 13:")
    browser.ask("document.getElementById('lag-drawing').dispatchEvent(new Event('pointerleave'))")
    assert browser.ask("return [...document.querySelectorAll('.cursor:not([hidden])')].length") == 0


def test_no_caption_is_hidden_by_a_drawing_and_no_labels_of_an_axis_overlap(
    browser: Browser, apart: Path
) -> None:
    for width in (400, 1400):
        browser.show(apart, width=width)

        covered = browser.ask(
            "return [...document.querySelectorAll('figure')].filter((one) =>"
            " one.querySelector('.main-svg').getBoundingClientRect().bottom >"
            " one.querySelector('figcaption').getBoundingClientRect().top + 1).length"
        )
        overlaps = browser.ask(_OVERLAPS)
        assert (width, covered, overlaps) == (width, 0, [])


_OVERLAPS = """
const found = [];
for (const place of document.querySelectorAll('.drawing')) {
  const labels = [...place.querySelectorAll('.xtick text, .ytick text, .xtitle, .ytitle')]
    .map((each) => [each.textContent, each.getBoundingClientRect()])
    .filter(([, box]) => box.width > 0);
  for (const [n, [text, a]] of labels.entries()) {
    for (const [other, b] of labels.slice(n + 1)) {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const along = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1 && along > 2) found.push([place.id, text, other]);
    }
  }
}
return found;
"""


def test_a_topic_name_with_markup_is_shown_as_text(browser: Browser, hostile: Path) -> None:
    browser.show(hostile)

    assert browser.ask("return typeof hacked") == "undefined"
    assert browser.ask("return document.querySelectorAll('img').length") == 0
    assert browser.said() == []
    first = browser.ask("return document.querySelector('#moves-table tbody td').textContent")
    assert first == f"{HOSTILE}-7"
    label = "return document.querySelector('#lanes-drawing .ytick').textContent"
    assert browser.ask(label).startswith("0 · <img src=x on")


def test_thousands_of_moves_are_drawn_with_a_note_of_those_left_out(
    browser: Browser, tmp_path: Path
) -> None:
    browser.show(_written(tmp_path, partitions=3000))

    text = browser.ask("return document.body.innerText")
    assert "The 40 slowest of 3,000 partitions." in text
    assert "The 500 longest of 3,000 moves; the lake has them all." in text
    assert (
        browser.ask("return document.querySelector('#moves-table').tBodies[0].rows.length") == 500
    )
    assert browser.said() == []


def test_the_report_of_a_quiet_cluster_is_a_page_of_notes(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    nothing = ReportFacts(cluster_id="still", runs=(), of_run=False)
    path.write_text(page(nothing, a_provenance()), encoding="utf-8")

    browser.show(path)

    assert (
        browser.ask("return document.querySelectorAll('section .note').length") == len(FIGURES) + 1
    )
    assert browser.said() == []


def test_an_old_browser_shows_why_it_draws_nothing(browser: Browser, report: Path) -> None:
    with browser.without("DecompressionStream"):
        browser.load(report)
        said = "return document.getElementById('lanes-drawing').textContent"
        browser.wait_until(said)

        assert browser.ask(said).startswith("This browser cannot draw the figure")
