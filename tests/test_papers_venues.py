"""Which venue a name means."""

import re
import tomllib
from datetime import date
from importlib.resources import files
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hindsight_fast.errors import UsageError
from hindsight_fast.papers import dates, venues
from hindsight_fast.papers.venue_check import CLASSES, Nearest, check, class_of

MEANT = {
    "NeurIPS": [
        "NIPS", "NeurIPS 2023", "Advances in Neural Information Processing Systems 36",
        "37th Conference on Neural Information Processing Systems", "NeurIPS 2023 oral",
        "NeurIPS 2022 (repo name/commit of 2022-11-03; no venue column)", "Ｎeurips",
        "Thirty-seventh Conference on Neural Information Processing Systems",
        "Advances in Neural Information Processing Systems 36: Annual Conference on Neural "
        "Information Processing Systems 2023, NeurIPS 2023, New Orleans, LA, USA, December 10 - 16",
        "Neural Information Processing Systems (NeurIPS) 2022", "2024 Neurips",
        "Advances in Neural Information Processing Systems (2024) vol. 37 page 80987-81015",
        "The Thirty-Eighth Annual Conference on Neural Information Processing Systems (NeurIPS)",
    ],
    "ICLR": [
        "ICLR (Poster)", "ICLR 2023 notable top 5%", "ICLR 2023 notable-top-25%", "ICLR_2024_oral",
        "ICLR 2024 Spotlight", "ICLR.cc/2024/Conference", "iclr",
        "The Twelfth International Conference on Learning Representations, ICLR 2024, Vienna, "
        "Austria, May 7-11, 2024",
        "ICLR 2020 - Proceedings of the 7th International Conference on Learning Representation",
        "13th International Conference on Learning Representations (ICLR 2025 Oral)",
        "Published as a conference paper at ICLR 2025", "To appear in ICLR",
    ],
    "ICML": [
        "Proc. of the 40th International Conference on Machine Learning", "ICML 2024, PMLR 235",
        "In: ICML", "ICML.cc/2024/Conference",
        "Proceedings of the 41 st International Conference on Machine Learning PMLR 2354 2024",
    ],
    "ACL": [
        "acl", "ACL/IJCNLP", "ACL (1)",
        "Proceedings of the 58th Annual Meeting of the Association for Computational Linguistics "
        "(Volume 1: Long Papers)",
        "2024.acl-long.419", "https://aclanthology.org/2023.acl-short", "ACL 2024 main",
        "Proceedings of the Joint Conference of the 47th Annual Meeting of the ACL and the 4th "
        "International Joint Conference on Natural Language Processing of the AFNLP",
    ],
    "EMNLP": [
        "EMNLP-IJCNLP 2019",
        "Proceedings of the 2023 Conference on Empirical Methods in Natural Language Processing "
        "(EMNLP 2023)",
        "2023.emnlp-main.559", "EMNLP/IJCNLP (1)",
        "Proceedings of the 2021 Conference on Empirical Methods in Natural Language Processing, "
        "Association for Computational Linguistics",
    ],
    "CVPR": [
        "IEEE/CVF Conference on Computer Vision and Pattern Recognition", "CVPR2023", "CVPR'23",
        "cvpr23",
        "CVPR 2024 Highlight", "CVPR 2024 (Highlights)", "CVPR 2024 Award Candidate",
        "2023 IEEE/CVF Conference on Computer Vision and Pattern Recognition (CVPR)",
        "2018 IEEE Conference on Computer Vision and Pattern Recognition",
    ],
    "AAAI": ["AAAI-24", "AAAI 2024 Technical Track", "AAAI vol38",
             "Proceedings of the AAAI Conference on Artificial Intelligence, 38(5)"],
    "AIES": ["AAAI/ACM AIES", "AAAI/ACM Conference on AI, Ethics, and Society"],
    "WACV": ["Workshop on Applications of Computer Vision", "wacv"],
    "NeurIPS Datasets and Benchmarks": ["NeurIPS 2023 Datasets and Benchmarks Poster"],
    "FAccT": ["FAT*"],
    "arXiv": ["arxiv", "CoRR", "CoRR, abs/2301.00001", "arXiv preprint arXiv:2301.00001",
              "arXiv (Cornell University)", "arXiv: Machine Learning"],
    "bioRxiv": ["bioRxiv", "bioRxiv (Cold Spring Harbor Laboratory)"],
    "NAACL": ["NAACL-HLT2021", "naacl2021",
              "North American Chapter of the Association for Computational Linguistics"],
    "SIGIR": ["SIGIR 2021 Proceedings of the 44th International ACM SIGIR Conference on Research "
              "and Development in Information Retrieval July 2021 Pages 2146-2150"],
    "TACL": ["Trans. Assoc. Comput. Linguistics", "Transactions of the Association for "
             "Computational Linguistics (2022) 10 73--91"],
    "TMLR": ["Trans. Mach. Learn. Res.", "Transactions on Machine Learning Research (05/2024)"],
    "ACM MM": ["ACM Multimedia", "MM 2024", "32nd ACM International Conference on Multimedia"],
    "ICMLA": ["International Conference on Machine Learning and Applications"],
    "ICONIP": ["International Conference on Neural Information Processing"],
    "ACML": ["Asian Conference on Machine Learning"],
    "Preprint": ["preprint", "Preprints 2024"],
    "ACL Rolling Review": ["ACL ARR 2024 June"],
}  # fmt: skip
OWN_NAME = [
    "IACL", "Asian ACL", "ACL (Anticancer letters)", "Journal of ACL", "workshop2023",
    "CC", "At ICML: /Vol-3832/paper2.pdf",
    "ICML Workshop", "ICLR 2024 Workshop X", "ICLR.cc/2024/Workshop/AGI", "AI4X @ NeurIPS 2023",
    "CVPR Workshops (CVPRW)", "CVPRW", "ICLR - Workshop", "ICML 2024 (Workshop)",
    "Findings of ACL", "ACL Findings", "EMNLP 2022 Findings", "CVPR Findings",
    "Findings of the Association for Computational Linguistics: EMNLP 2021",
    "EMNLP (System Demonstrations)", "Tutorial at ACL", "CVPR Companion", "AAAI Student Abstract",
    "ICLR 2024 Tiny Papers", "ICLR Blogposts 2023", "AAAI Spring Symposium", "ICML, IJCAI",
    "Advances in Neural Information Processing Systems Workshop, NeurIPS 2023, New Orleans",
    "International Conference on Learning Representations and Reasoning", "IEEE Multimedia",
    "SIGIR-AP", "2024.findings-naacl.78", "https://aclanthology.org/2023.findings-emnlp.189/",
    "International Conference on Software Engineering (ICSE; NIER track)", "ACL 2025 Finding",
    "ICLR 2024 Position Track", "AAAI 2024 New Faculty Highlights", "EMNLP 2023 Industry Track",
    "NeurIPS 2023 Competition Track", "ACL (Student Research Workshop)", "EMNLP (Tutorials)",
    "Findings of ACL, ACL 2024", "International Conference on Machine Learning, Chengdu, China",
    "Association for Computational Linguistics",
]  # fmt: skip
UNDECIDED = [
    "Submitted to ICLR 2024", "ICLR 2024 Rejected", "ICLR 2024 Withdrawn Submission",
    "ICLR.cc/2024/Conference/Rejected_Submission", "ICLR 2024 Conference Submission",
    "ICLR.cc/2024/Conference/Paper12", "ICLR.cc/2024/Conference/Submission123", "Paper12",
    "CVPR 2024 Desk-Rejected", "NeurIPS 2023 (under review)", "Under double-blind review at ICML",
    "ICML 2024 (not accepted)", "Withdrawal, ICLR 2021",
    "Under review as a conference paper at ICLR 2024", "NeurIPS 2024 Conference Submission1234",
]  # fmt: skip
OTHER = {"AACL", "NAACL", "EACL", "IJCNLP", "Machine Learning", "SIGIR"}
NOTHING = [
    "",
    " ",
    "undefined",
    "Unknown",
    "N/A",
    "null",
    "2023",
    "Poster",
    "Accept (oral)",
    "IEEE",
    "PubMed",
    "Proceedings of the",
    "PMLR 202 (2023)3676-3713",
    "https://aclanthology.org/",
]


def _resolve(names: list[str]) -> list[str | None]:
    return venues.resolve(pl.Series(names, dtype=pl.String), venues.table()).to_list()


@pytest.mark.parametrize(("name", "written"), MEANT.items())
def test_aliases(name: str, written: list[str]) -> None:
    assert _resolve(written) == [name] * len(written)


def test_what_is_not_the_main_track_keeps_its_name() -> None:
    assert _resolve(OWN_NAME) == OWN_NAME
    assert not venues.is_known(pl.Series(OWN_NAME), venues.table()).any()
    assert venues.is_named(pl.Series(OWN_NAME), venues.table()).all()


def test_an_undecided_submission_names_no_venue() -> None:
    assert _resolve(UNDECIDED) == UNDECIDED
    for told in (venues.is_top, venues.is_known, venues.is_named):
        assert not told(pl.Series(UNDECIDED), venues.table()).any()


def test_rank() -> None:
    names = ["ICLR", "SIGIR", "Physical Review Letters", "arXiv", "Submitted to ICLR 2024", None]
    assert venues.rank(pl.Series(names), venues.table()).to_list() == [5, 4, 3, 2, 1, 0]
    assert venues.rank(pl.Series([], dtype=pl.String), venues.table()).to_list() == []


def test_neighbours_of_acl_are_themselves() -> None:
    assert set(_resolve(sorted(OTHER))) == OTHER
    assert not venues.is_top(pl.Series(sorted(OTHER)), venues.table()).any()


def test_no_venue_is_null_and_no_key() -> None:
    assert _resolve(NOTHING) == [None] * len(NOTHING)
    assert all(venues.table().names) and not {"", "none", "null"} & set(venues.table().names)
    unknown = pl.Series([None, "arXiv"], dtype=pl.String)
    assert (
        venues.is_top(unknown, venues.table()).to_list()
        == venues.is_known(unknown, venues.table()).to_list()
        == [False, False]
    )
    assert venues.resolve(pl.Series([None], dtype=pl.String), venues.table()).to_list() == [None]


def test_the_seven() -> None:
    assert venues.table().top == {"ICLR", "NeurIPS", "ICML", "ACL", "EMNLP", "CVPR", "AAAI"}


def test_table_is_sound() -> None:
    content = tomllib.loads(files("hindsight_fast").joinpath("data/venues.toml").read_text("utf-8"))
    names = [venue["name"] for venue in content["venue"]]
    assert len(names) == len(set(names)) >= 270
    for venue in content["venue"]:  # no alias of one is an alias of another, and each finds home
        assert set(_resolve([venue["name"], *venue.get("aliases", [])])) == {venue["name"]}


def test_resolving_twice_changes_nothing() -> None:
    once = _resolve(
        [*OWN_NAME, *UNDECIDED, *(name for written in MEANT.values() for name in written)]
    )
    assert _resolve([name or "" for name in once]) == once


def test_year_in() -> None:
    names = pl.Series(["ICLR 2024", "CVPR 2023/2024", "CVPR 20231", "ACL", None])
    assert venues.year_in(names).to_list() == ["2024", None, None, None, None]


def test_months_of_main_tracks() -> None:
    known = venues.table().months
    assert {name for name, _ in known} >= venues.table().top
    for name in ("ICLR", "NeurIPS", "ICML", "ACL", "CVPR", "AAAI"):
        assert {year for held, year in known if held == name} >= set(range(2017, 2026))
    assert venues.month_held(
        pl.Series(["NeurIPS", "NeurIPS", "ICLR", "NeurIPS", None, "Findings of ACL"]),
        pl.Series([2022, 2023, 2020, 1990, 2023, 2023]),
        venues.table(),
    ).cast(pl.String).to_list() == ["2022-11-01", "2023-12-01", "2020-04-01", None, None, None]


def test_months_are_those_that_proceedings_tell(shared: Path) -> None:
    path = shared / "data" / "papers" / "paperlists.parquet"
    told = pl.read_parquet(path, columns=["venue", "year", "date"]).drop_nulls().unique()
    start = dates.parse(told["date"], date(2026, 11, 30))["start"]
    names = venues.resolve(told["venue"], venues.table())
    held = venues.month_held(names, told["year"].cast(pl.Int32), venues.table())
    compared = held.is_not_null() & (start.dt.year() == held.dt.year())
    assert compared.sum() > 30
    other = told.with_columns(held=held).filter(compared & (start.dt.month() != held.dt.month()))
    assert other.is_empty(), other


_PIECES = (
    *(alias for alias in MEANT["NeurIPS"] + OWN_NAME + UNDECIDED + NOTHING),
    "ICML", "acl", "IEEE", "Workshop", "2023", "oral", ", ", " (", ")", ": ", "Ｉ", "é", "&", "_",
    "Phys. Rev. D", "Journal of", "PubMed", "Machine Learning", "no", "v3", "pp. 12--15", "CVPR23",
)  # fmt: skip


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from(_PIECES), max_size=4).map(" ".join), min_size=1))
def test_names_that_are_passed_over_mean_nothing(names: list[str]) -> None:
    from hindsight_fast.papers.venues import _meaning  # pyright: ignore[reportPrivateUsage]

    assert _resolve(names) == [_meaning(name, venues.table()) for name in names]


MINE = """
nothing = ["to be announced"]
side_events = ["satellite meeting"]

[[venue]]
name = "NeurIPS"
aliases = ["NuerIPS"]

[[venue]]
name = "BIBM"
aliases = ["International Conference on Bioinformatics and Biomedicine"]
top = true
tier = 2
months = { 2024 = 12 }
"""


def test_a_file_of_ones_own_extends_the_table(tmp_path: Path) -> None:
    (tmp_path / "my.toml").write_text(MINE, encoding="utf-8")
    mine, shipped = venues.load(tmp_path / "my.toml"), venues.load()
    names = ["NuerIPS 2024", "IEEE BIBM 2024", "neurips", "To Be Announced", "ICML"]
    resolved = venues.resolve(pl.Series(names), mine)
    assert resolved.to_list() == ["NeurIPS", "BIBM", "NeurIPS", None, "ICML"]
    assert _resolve(names)[:2] == names[:2]
    assert venues.is_top(resolved, mine).to_list() == [True, True, True, False, True]
    assert venues.is_side_event(pl.Series(["ICML Satellite Meeting"]), mine).all()
    assert mine.months["BIBM", 2024] == mine.months["NeurIPS", 2024] == 12
    assert mine.fingerprint != shipped.fingerprint and shipped.added == ""
    again = venues.extended(mine.added, "a store")
    assert again.fingerprint == mine.fingerprint and again.names == mine.names
    assert venues.extended("", "a store") is shipped


WRONG = {
    "[[venue": "is not TOML",
    "venues = []": "'venues' means nothing here, did you mean 'venue'",
    'venue = "ICML"': "two brackets",
    "[[venue]]\naliases = []": "venue 1 has no name",
    '[[venue]]\nname = "X"\nalias = ["Y"]': "'alias' means nothing here, did you mean 'aliases'",
    '[[venue]]\nname = "X"\naliases = "Y"': "venue 'X': aliases is 'Y'; expected is a list",
    '[[venue]]\nname = "X"\ntop = 1': "top is 1; expected is true or false",
    '[[venue]]\nname = "X"\ntier = 3': "tier is 3; expected is 1 or 2",
    '[[venue]]\nname = "X"\nmonths = { 2024 = 13 }': "months is",
    '[[venue]]\nname = "X"\nmonths = { may = 5 }': "months is",
    '[[venue]]\nname = "X"\naliases = ["NIPS"]': "'NIPS' of 'X' already means 'NeurIPS'",
    '[[venue]]\nname = "Conference 2024"': "says nothing of its own",
    "nothing = [1]": "nothing is [1]; expected is a list of texts",
}


@pytest.mark.parametrize(("text", "said"), WRONG.items())
def test_a_wrong_file_is_refused_by_name_and_key(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "my.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match=re.escape(said)) as refused:
        venues.load(tmp_path / "my.toml")
    assert str(refused.value).startswith(str(tmp_path / "my.toml"))


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    for name in ("none.toml", "bytes.toml"):
        with pytest.raises(UsageError, match=name):
            venues.load(tmp_path / name)


def test_each_name_has_a_class() -> None:
    names = ["ICLR 2024", "SIGIR", "CoRR", "ICML Workshop", "Submitted to ICLR", "Things", "", None]
    expected = [*CLASSES, "none"]
    assert class_of(pl.Series(names, dtype=pl.String), venues.table()).to_list() == expected


def test_what_is_not_known_is_listed_by_frequency() -> None:
    names = pl.Series(["NuerIPS"] * 2 + ["Things"] * 3 + ["ICML", "ICML Workshop", None])
    checked = check([names, pl.Series(["Things", "NuerIPS", "Stuff"])], venues.table(), 2)
    assert checked.unmatched.rows() == [("Things", 4, None), ("NuerIPS", 3, "NeurIPS")]
    assert (checked.n_unmatched, sum(checked.counts.values())) == (3, 11)
    assert list(checked.counts) == list(CLASSES)
    nothing = check([pl.Series([], dtype=pl.String)], venues.table(), 2)
    assert nothing.n_unmatched == 0 and nothing.unmatched.height == 0


NEAREST = {
    "SIGDAIL 2024": "SIGDIAL",
    "Int. Conference on Learning Representations (Kigali)": "ICLR",
    "CIKM 2018 October 22-26 Torino Italy": "CIKM",
    "Proc. Empirical Methods in Natural Language Processing, Singapore, pages 12": "EMNLP",
    "Nature Physics": None,
    "é": None,
    "": None,
}


def test_the_nearest_known_name() -> None:
    nearest = Nearest(venues.table())
    assert {name: nearest.to(name) for name in NEAREST} == NEAREST


VOLUMES = {
    "https://aclanthology.org/2022.findings-emnlp.511/": "Findings",
    "10.18653/v1/2021.findings-acl.4": "Findings",
    "ACL:2023.acl-industry.3": "Industry Track",
    "https://aclanthology.org/2022.emnlp-demos.5": "Demonstrations",
    "2024.naacl-srw.1": "Student Research Workshop",
    "https://aclanthology.org/W18-2501/": "Workshop",
    "https://openaccess.thecvf.com/content/CVPR2023W/VAND/html/A_paper.html": "Workshop",
    "http://openaccess.thecvf.com/content_CVPRW_2019/html/A_paper.html": "Workshop",
    "https://datasets-benchmarks-proceedings.neurips.cc/paper/2021/hash/1a.html":
        "Datasets and Benchmarks",
    "https://papers.nips.cc/paper_files/paper/2023/hash/1-Abstract-Conference.html": None,
    "https://aclanthology.org/2022.emnlp-main.511/": None,
    "https://aclanthology.org/P18-1001/": None,
    "https://aclanthology.org/2024.lrec-main.1": None,
    "http://openaccess.thecvf.com/content_cvpr_2019/html/A_new_paper.html": None,
    "https://openaccess.thecvf.com/content/WACV2023/html/W.html": None,
    "https://openaccess.thecvf.com/content/CVPR2023/html/W.html": None,
    "10.1234/w18-25012": None,
}  # fmt: skip


def test_an_address_tells_of_a_volume_that_is_not_the_main_one() -> None:
    given = pl.Series(["EMNLP"] * len(VOLUMES))
    places = pl.Series(list(VOLUMES))
    found = venues.within_volume(given, places, places).to_list()
    assert found == [f"EMNLP {volume}" if volume else "EMNLP" for volume in VOLUMES.values()]
    assert given.to_list() == ["EMNLP"] * len(VOLUMES)
    again = venues.resolve(pl.Series(found), venues.table())
    assert venues.is_top(again, venues.table()).to_list() == [
        volume is None for volume in VOLUMES.values()
    ]
    unknown = venues.within_volume(pl.Series([None] * len(VOLUMES), dtype=pl.String), places)
    assert unknown.null_count() == len(VOLUMES)
    named = venues.within_volume(
        pl.Series(["Findings of ACL 2021"]), pl.Series(["2021.findings-acl.4"])
    )
    assert named.to_list() == ["Findings of ACL 2021"]
