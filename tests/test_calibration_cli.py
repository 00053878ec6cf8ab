"""The verb calibrate: tables, one JSON object, a page that fetches nothing, and what it refuses."""

import json
import re
from pathlib import Path

import pytest

from command_line import run, start
from hindsight_fast.calibration._plots import Line, chart, ticks
from scoring_world import World, made_up_ideas, make_world
from test_data_report import Page


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = make_world(tmp_path_factory.mktemp("world"), index=True)
    lines = [json.dumps(one) + "\n" for one in made_up_ideas(30)]
    (world.folder / "ideas.jsonl").write_text("".join(lines))
    pairs = [{"a_id": f"p{i:04d}", "b_id": f"p{2 * i:04d}", "grade": i % 4} for i in range(1, 29)]
    (world.folder / "pairs.jsonl").write_text("".join(json.dumps(one) + "\n" for one in pairs))
    return world


def test_tables_and_a_page(world: World) -> None:
    command = "calibrate --pool pool --ideas ideas.jsonl --pairs pairs.jsonl --out page.html"
    done = start(world.folder, world.folder, command)
    assert done.returncode == 0, done.stderr
    for title in ("What is lost", "Cosines", "Theta by graded pairs", "Theta by chance matches",
                  "When theta moves", "When K moves", "When the weight of citations moves",
                  "When the pool is smaller", "Papers that much hangs on"):  # fmt: skip
        assert title in done.stdout
    *_, last = done.stdout.splitlines()
    assert last.startswith("30 ideas of ideas.jsonl, against 60 papers, K = 5")
    assert last.endswith("wrote page.html")
    text = (world.folder / "page.html").read_text()
    page = Page(text)
    assert not page.open and "svg" in page.tags
    assert not page.tags & {"script", "link", "img", "iframe", "object", "embed"}
    assert not {"src", "href", "onload"} & set(page.attributes)
    assert "http" not in text and "@import" not in text and "url(" not in text
    assert "HindSight recipe=paper" in page.words and "Theta by graded pairs" in page.words
    assert page.words.count("mean score") > 4 and "nan" not in text.lower()
    again = run(world.folder, world.folder, command)
    assert again.returncode == 2 and "--overwrite" in again.stderr


def test_json(world: World) -> None:
    done = run(world.folder, world.folder, "calibrate --pool pool --limit 9 --json --threads 1")
    facts = json.loads(done.stdout)
    assert facts["kind"] == "papers of the pool" and facts["n"] == 9 and facts["pairs"] is None
    two = run(world.folder, world.folder, "calibrate --pool pool --limit 9 --json --threads 2")
    assert json.loads(two.stdout) == facts


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ("--ideas none.jsonl", 3, "no such file"),
        ("--ideas nothing.jsonl", 3, "none of 1 ideas can be scored"),
        ("--pairs ideas.jsonl", 3, "none of 30 records is a graded pair"),
        ("--k 0", 2, "k = 0"),
        ("--theta 2", 2, "theta = 2"),
        ("--limit 0", 2, "--limit"),
        ("--ideas ideas.jsonl --out ideas.jsonl --overwrite", 2, "is what is to be read"),
        ("--out store --overwrite", 2, "is a folder"),
        ("--out ideas.jsonl/page.html", 5, "could not write"),
    ],
)
def test_what_is_refused(world: World, options: str, code: int, words: str) -> None:
    (world.folder / "nothing.jsonl").write_text('{"text": "short"}\n')
    done = run(world.folder, world.folder, f"calibrate --pool pool --out new.html {options}")
    assert done.returncode == code, done.stderr
    assert words in done.stderr and not done.stdout and "Traceback" not in done.stderr
    assert not (world.folder / "new.html").exists()


def test_ideas_from_standard_input(world: World) -> None:
    ideas = (world.folder / "ideas.jsonl").read_text()
    command = "calibrate --pool pool --json --ideas"
    named = json.loads(run(world.folder, world.folder, f"{command} ideas.jsonl").stdout)
    piped = json.loads(run(world.folder, world.folder, f"{command} -", input=ideas).stdout)
    assert piped | {"ideas": named["ideas"]} == named and "stdin" in piped["ideas"]


def test_an_index_that_is_trusted_is_measured(world: World, tmp_path: Path) -> None:
    command = "calibrate --pool pool --encoder models/tiny --limit 20 --json"
    bare = json.loads(run(tmp_path, world.folder, command).stdout)
    trusted = json.loads(run(tmp_path, world.folder, f"{command} --trust").stdout)
    assert bare["loss"]["set_aside"] and bare["loss"]["index"] is None
    assert trusted["loss"]["index"]["index"]["share"] > 0.9
    assert trusted | {"loss": None} == bare | {"loss": None}


def test_more_neighbours_than_papers(world: World) -> None:
    done = run(world.folder, world.folder, "calibrate --pool pool --k 200 --ideas ideas.jsonl")
    assert (
        done.returncode == 0 and "the pool has 60 papers, so no larger K finds more" in done.stdout
    )


def test_charts_have_round_ticks_and_no_markup_of_others() -> None:
    assert ticks(0, 1) == [0, 0.2, 0.4, 0.6, 0.8, 1.0]
    assert ticks(0.652, 0.71) == [0.66, 0.67, 0.68, 0.69, 0.7, 0.71]
    assert ticks(0, 2592) == [0, 500, 1000, 1500, 2000, 2500]
    drawn = chart("<b>", [Line("a&b", [(0, 0), (1, 0)]), Line("c", [(0, 1)])], "x", mark=0.5)
    assert "<b>" not in drawn and "a&amp;b" in drawn and not Page(drawn).open
    places = [float(n) for n in re.findall(r'(?:[MLVH ]| [xy12]=")(-?[\d.]+)', drawn)]
    assert places and all(0 <= place <= 460 for place in places)
    assert chart("nothing", [Line("", [])], "x") == ""
    assert "nan" not in chart("one", [Line("", [(3, 0)])], "x")
