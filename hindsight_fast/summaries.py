"""What a reader must know of a scoring run beside its counts, in sentences."""

from datetime import date
from typing import Any

from hindsight_fast.agreement import Agreement
from hindsight_fast.tables import CLOSE


def notes(facts: dict[str, Any], cutoff: date) -> list[str]:
    """What a reader must know before believing the means, a sentence each."""
    counts, lines = facts["counts"], list[str]()
    unscored = {s: n for s, n in counts["by_status"].items() if s not in ("ok", "empty_pool")}
    if unscored:
        listed = ", ".join(f"{n:,} {status.replace('_', ' ')}" for status, n in unscored.items())
        why = "; --strict says what is wrong with the first" if "unreadable" in unscored else ""
        lines.append(f"not scored, left out of means: {listed}{why}")
    if counts["by_status"].get("empty_pool"):
        lines.append("the pool has no papers, so every score is 0 (status empty_pool)")
    if informed := counts["knowledge_on_or_after_cutoff"]:
        lines.append(f"{informed:,} ideas know of {cutoff} or later, and so are no forecasts")
    if unread := counts["knowledge_date_not_understood"]:
        lines.append(f"{unread:,} ideas have a knowledge_date that is no date: not looked at")
    if zero := sum(system["n_matched_zero"] for system in facts["systems"]):
        lines.append(
            f"{zero:,} ideas match papers and score 0 all the same: none of those papers has "
            "known citations or a top venue, so the match rate says more than the score"
        )
    if weak := sum(system["n_weakly_dated"] for system in facts["systems"]):
        lines.append(
            f"{weak:,} ideas have a best paper that is dated by its venue or its year alone: it "
            f"may have been public before {cutoff} (best_date_kind; pool --require-first-public "
            "leaves such papers out)"
        )
    cut = sum(system["n_truncated"] for system in facts["systems"])
    if cut > counts["scored"] / 5:
        lines.append(f"{cut:,} ideas are longer than the encoder reads: their ends were not seen")
    if repeated := facts.get("repeated_ids"):
        lines.append(f"{repeated:,} ideas have the id of an earlier one: join on places, not ids")
    if saturated := counts["saturated"]:
        lines.append(f"{saturated:,} ideas match all K nearest papers: more impact may lie beyond")
    quality = facts.get("index_quality")
    if quality and quality["recall"] is not None:
        lines.append(
            f"against the exact scan, on {quality['n_sampled']} sampled ideas: recall@K "
            f"{quality['recall']:.4f} (95%: {_in_words(quality['recall_interval'])}), equal scores "
            f"{quality['equal_scores']:.4f} (95%: {_in_words(quality['equal_scores_interval'])})"
        )
    if facts["index_set_aside"]:
        lines.append(
            "the pool's index was made by somebody else and so not opened: every paper was looked "
            "at (--trust opens it, --search index makes it anew)"
        )
    if facts["search"] == "index" and (choice := facts["candidates"]) and not choice["reached"]:
        lines.append(
            f"the index was to find {choice['target']:g} of the nearest papers and on a sample "
            f"found {choice['recall']:.4f}, with the most candidates that are tried; "
            "--search exact misses none"
        )
    recall = facts["made_from"]["recall"]
    if facts["search"] == "index" and facts["candidates"] is None and recall is not None:
        lines.append(
            f"how hard an index must be searched for a recall of {recall:g} is tried only where "
            "ideas are many; here it was searched as the signature says"
        )
    if (close := counts["near_theta"]) and not facts["precision"]["costs"]:
        lines.append(
            f"{close:,} ideas have one of their K nearest papers within {CLOSE:g} of theta: on "
            "another kind of machine they may match otherwise"
        )
    if facts["scan_note"]:
        lines.append(facts["scan_note"])
    lines += _notes_on_precision(facts) + notes_on_published(facts["published"])
    return lines + _notes_on_cache(facts["cache"])


def _in_words(interval: list[float]) -> str:
    return f"{interval[0]:.4f} to {interval[1]:.4f}"


def _notes_on_precision(facts: dict[str, Any]) -> list[str]:
    precision, lines = facts["precision"], list[str]()
    if costs := precision["costs"]:
        near, n = precision["near_theta"], facts["counts"]["scored"]
        sides = " and ".join(
            f"{cost['precision']} {cost['side']} ({cost['error']:.2g}, on {cost['n']})"
            for cost in costs
        )
        lines.append(
            f"{near['nearest']:,} of {n:,} ideas have their nearest paper within "
            f"{near['error']:.2g} of theta, {near['any_of_k']:,} any of the K nearest: in float32 "
            f"they may match otherwise; the error is that of {sides}"
        )
    if retried := facts["counts"]["retried"]:
        lines.append(
            f"{retried:,} ideas had no unit vector in {precision['ideas']}: encoded in float32"
        )
    return lines


def notes_on_published(check: dict[str, Any] | None) -> list[str]:
    """How published vectors agree with the encoder's own (`Pool.check`), where a pool has any."""
    agreement = Agreement.from_facts(check)
    if check is None or agreement is None:
        return []
    line = (
        f"vectors of papers are published ones; of {agreement.n:,} that were encoded again, the "
        f"{agreement.in_words()}"
    )
    if check.get("passed") is False:
        line += "; so they are not this encoder's, and scores mean little: --force took them"
    return [line]


def _notes_on_cache(cache: dict[str, Any] | None) -> list[str]:
    if cache is None:
        return []
    hits, n = cache["hits"], cache["hits"] + cache["misses"]
    line = f"{hits:,} of {n:,} texts were there already, in {cache['folder']}"
    if cache["damaged"]:
        line += f"; {cache['damaged']:,} more were there but damaged, and were encoded again"
    if cache["trouble"]:
        line += f"; it was given up, and the rest encoded without it: {cache['trouble']}"
    return [line]
