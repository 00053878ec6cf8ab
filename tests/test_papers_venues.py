"""Which venue a name means."""

import tomllib
from importlib.resources import files

import polars as pl
import pytest

from hindsight_fast.papers import venues

MEANT = {
    "NeurIPS": [
        "NIPS", "NeurIPS 2023", "Advances in Neural Information Processing Systems 36",
        "37th Conference on Neural Information Processing Systems", "NeurIPS 2023 oral",
        "NeurIPS 2022 (repo name/commit of 2022-11-03; no venue column)", "Ｎeurips",
        "Thirty-seventh Conference on Neural Information Processing Systems",
        "Advances in Neural Information Processing Systems 36: Annual Conference on Neural "
        "Information Processing Systems 2023, NeurIPS 2023, New Orleans, LA, USA, December 10 - 16",
    ],
    "ICLR": [
        "ICLR (Poster)", "ICLR 2023 notable top 5%", "ICLR 2023 notable-top-25%", "ICLR_2024_oral",
        "ICLR 2024 Spotlight", "ICLR.cc/2024/Conference", "iclr",
        "The Twelfth International Conference on Learning Representations, ICLR 2024, Vienna, "
        "Austria, May 7-11, 2024",
    ],
    "ICML": [
        "Proc. of the 40th International Conference on Machine Learning", "ICML 2024, PMLR 235",
        "In: ICML", "ICML.cc/2024/Conference",
    ],
    "ACL": [
        "acl", "ACL/IJCNLP", "ACL (1)",
        "Proceedings of the 58th Annual Meeting of the Association for Computational Linguistics "
        "(Volume 1: Long Papers)",
    ],
    "EMNLP": [
        "EMNLP-IJCNLP 2019",
        "Proceedings of the 2023 Conference on Empirical Methods in Natural Language Processing "
        "(EMNLP 2023)",
    ],
    "CVPR": [
        "IEEE/CVF Conference on Computer Vision and Pattern Recognition", "CVPR2023", "CVPR'23",
        "cvpr23",
        "CVPR 2024 Highlight", "CVPR 2024 (Highlights)", "CVPR 2024 Award Candidate",
        "2023 IEEE/CVF Conference on Computer Vision and Pattern Recognition (CVPR)",
    ],
    "AAAI": ["AAAI-24", "AAAI 2024 Technical Track", "AAAI vol38",
             "Proceedings of the AAAI Conference on Artificial Intelligence, 38(5)"],
    "AIES": ["AAAI/ACM AIES", "AAAI/ACM Conference on AI, Ethics, and Society"],
    "WACV": ["Workshop on Applications of Computer Vision", "wacv"],
    "NeurIPS Datasets and Benchmarks": ["NeurIPS 2023 Datasets and Benchmarks Poster"],
    "FAccT": ["FAT*"],
    "arXiv": ["arxiv", "CoRR", "CoRR, abs/2301.00001", "arXiv preprint arXiv:2301.00001"],
    "bioRxiv": ["bioRxiv"],
    "NAACL": ["NAACL-HLT2021", "naacl2021"],
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
]  # fmt: skip
UNDECIDED = [
    "Submitted to ICLR 2024", "ICLR 2024 Rejected", "ICLR 2024 Withdrawn Submission",
    "ICLR.cc/2024/Conference/Rejected_Submission", "ICLR 2024 Conference Submission",
    "ICLR.cc/2024/Conference/Paper12", "ICLR.cc/2024/Conference/Submission123", "Paper12",
    "CVPR 2024 Desk-Rejected", "NeurIPS 2023 (under review)", "Under double-blind review at ICML",
    "ICML 2024 (not accepted)", "Withdrawal, ICLR 2021",
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
    assert len(names) == len(set(names)) >= 47
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
