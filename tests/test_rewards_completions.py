"""The idea in a completion, whatever a template, a parser or a policy put round it."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hindsight_fast.rewards._completions import answer_of, content_of, find_ideas

IDEA = "We train sparse experts on noisy labels. They vote, and so labels are mended."


def ideas(completion: object, prompt: object = None) -> list[dict[str, str]]:
    found = find_ideas(answer_of(completion, prompt), max_chars=8000)
    assert (found.status == "ok") == bool(found.ideas)
    return found.ideas


def status(completion: object, prompt: object = None) -> str:
    return find_ideas(answer_of(completion, prompt), max_chars=8000).status


@pytest.mark.parametrize(
    "completion",
    [
        IDEA,
        {"role": "assistant", "content": IDEA},
        [{"role": "assistant", "content": IDEA}],
        [{"role": "assistant", "content": [{"type": "text", "text": IDEA}]}],
        [{"type": "text", "text": IDEA}],
        [{"role": "user", "content": "Go on"}, {"role": "assistant", "content": IDEA}],
        [{"role": "assistant", "content": "x"}, {"role": "assistant", "content": IDEA}],
        [{"role": "assistant", "content": IDEA}, {"role": "tool", "content": "42"}],
        ({"role": "assistant", "content": IDEA},),
        f"<think>Shall I? An idea: graphs.</think>{IDEA}",
        f"so many thoughts </think>\n\n{IDEA}",
        f"<think>a</think> x <think>b</think>\n{IDEA}",
        f"<THINKING>a</THINKING>{IDEA}",
        f"{IDEA}\n<think>or rather",
        f"{IDEA}<|im_end|>\n<|endoftext|>",
        f"<s>{IDEA}</s><pad><pad>",
        f"<|im_start|>user\nAn idea!<|im_end|>\n<|im_start|>assistant\n{IDEA}<|im_end|>",
        f"<s>[INST] An idea! [/INST] {IDEA}</s>",
        f"<|start_header_id|>assistant<|end_header_id|>\n\n{IDEA}<|eot_id|>",
        f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{IDEA}<|return|>",
        f"<start_of_turn>model\n{IDEA}<end_of_turn>",
        f"<｜User｜>An idea!<｜Assistant｜>{IDEA}<｜end▁of▁sentence｜>",
        f"```\n{IDEA}\n```",
        f"```markdown\n{IDEA}\n```\n",
        json.dumps({"text": IDEA}),
        json.dumps([IDEA]),
        json.dumps({"ideas": [{"idea": IDEA}]}),
        f"Here it is:\n```json\n{json.dumps({'Proposal': IDEA})}\n```\nI hope you like it.",
        f"~~~json\n{json.dumps({'text': IDEA})}",
    ],
)
def test_forms_of_one_idea(completion: object) -> None:
    (found,) = ideas(completion)
    assert {"text": found["text"].strip()} == {"text": IDEA}


def test_a_prompt_that_comes_along_is_cut_off() -> None:
    prompt = "<|user|>An idea on graphs, such as: We walk graphs.\n<|assistant|>"
    for query in (f"{prompt}{IDEA}</s>", f"<s>{prompt}{IDEA}</s>"):
        assert ideas(query, prompt)[0]["text"].strip() == IDEA
    assert ideas(f"An idea: {IDEA}", "An idea:")[0]["text"].strip() == IDEA
    assert ideas(IDEA, [{"role": "user", "content": "An idea!"}]) == [{"text": IDEA}]
    assert ideas(IDEA, "   ") == [{"text": IDEA}]


def test_records_have_the_fields_of_files() -> None:
    record = {"Title": "T", "Research Problem": "P", "proposed_method": ["a", "b"], "novelty": 9}
    assert ideas(json.dumps(record)) == [{"title": "T", "problem": "P", "method": "a\nb"}]
    listed = json.dumps({"n": 2, "ideas": [record, {"problem": "Q", "method": "R"}, {"x": 1}]})
    assert [one.get("problem") for one in ideas(listed)] == ["P", "Q"]
    assert [one["text"] for one in ideas(json.dumps(["one", "two"]))] == ["one", "two"]


def test_ideas_under_headings() -> None:
    text = f"Some ideas.\n\n## Idea 1: First\n{IDEA}\n\n**Idea 2**\nAnother one.\n\nIdea #3:\n"
    assert [one["text"] for one in ideas(text)] == [f"First\n{IDEA}", "Another one."]
    alone = f"Idea 1: {IDEA}\n1. a step\n2. a step"
    assert ideas(alone) == [{"text": alone}]
    many = "\n".join(f"Idea {i}\n{IDEA}" for i in range(100))
    found = find_ideas(many, max_chars=100_000)
    assert len(found.ideas) == 64 and found.cut


@pytest.mark.parametrize(
    ("completion", "right"),
    [
        (None, "empty"),
        ("", "empty"),
        (" \n\t", "empty"),
        ([], "empty"),
        ([{"role": "assistant", "content": None}], "empty"),
        ({"role": "assistant"}, "empty"),
        (42, "unparseable"),
        (b"bytes", "unparseable"),
        ([42], "unparseable"),
        ("<|im_end|></s>", "empty"),
        ("<think></think>", "empty"),
        ("<think>never ends", "unfinished"),
        ("<think>a</think><think>b", "unfinished"),
        ("I'm sorry, but I can't help with that.", "refused"),
        ("I cannot provide a research idea.", "refused"),
        ("As an AI, I have none.", "refused"),
        ("Sorry!", "refused"),
        ('{"problem": "P", "method": "cut in the mid', "unparseable"),
        ('{"novelty": 9}', "unparseable"),
        ("[1, 2]", "unparseable"),
        ("[" * 5000, "ok"),
        ("{\\bf Graphs} help.", "ok"),
        ("I can't see why graphs need labels. " * 30, "ok"),
        ("Sorry states of sorting networks are learned from few examples.", "ok"),
    ],
)
def test_what_holds_no_idea(completion: object, right: str) -> None:
    assert status(completion) == right


@pytest.mark.parametrize(
    "text",
    [
        "a" * 2_000_000,
        "((((" * 500_000,
        "\n" * 500_000,
        "😀" * 1_000_000,
        "<think>" * 300_000,
        "</think>" * 300_000,
        "<|" * 1_000_000,
        "```\n" * 500_000,
        "Idea 1\n" * 300_000,
        '{"a":' * 400_000,
        "#" * 2_000_000,
        "* " * 1_000_000,
        "[/INST]" * 300_000,
        "<" * 2_000_000,
        " " * 2_000_000,
    ],
)
def test_long_and_hostile_texts_take_no_time(text: str) -> None:
    began = time.process_time()
    find_ideas(answer_of(text, text[:1000] + "x"), max_chars=8000)
    assert time.process_time() - began < 2  # a pattern that backtracks takes minutes


@given(st.text(alphabet=st.sampled_from('<>/|thinkTHINK`{}[]":,\n idea1#.\ud800é')))
def test_any_text_has_an_answer(text: str) -> None:
    found = find_ideas(answer_of(text), max_chars=50)
    assert (found.status == "ok") == bool(found.ideas)
    assert all(isinstance(value, str) for one in found.ideas for value in one.values())


def test_text_of_messages() -> None:
    assert content_of([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]) == "b"
    assert content_of([{"type": "image"}, {"type": "text", "text": "a"}, "b"]) == "a\nb"
    assert content_of({"content": {"content": "deep"}}) is None
    assert content_of([[["x"]]]) is None
