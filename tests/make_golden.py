"""Write the golden vectors that ship: python tests/make_golden.py NAME FOLDER.

The vectors come from the float64 twin in reference.py and the published weights in FOLDER, never
from the graph that they are to prove. They change only if a text or a known encoder does.
"""

import json
import sys
from pathlib import Path

from tokenizers import Tokenizer

from hindsight_models.card import Golden
from hindsight_models.fetching.known import KNOWN
from reference import bert_vector, load_tensors

REPEATED = "We repeat the study on twelve corpora and report every failure that we met. "
TEXTS = (
    ("", ""),
    ("Attention", ""),
    ("", "A body without a title."),
    ("Sparse retrieval with learnt term weights", "We learn which words of a query matter."),
    ("Naïve Bayes für kurze Texte", "Accents, ümlauts and ΕΛΛΗΝΙΚΑ; 漢字 and 🦜 too."),
    (
        "O(n log n) attention?",
        "From $n^2$ to $n\\log n$; see [MASK], e.g. Fig. 3(b).",
    ),
    ("Evaluating ideas in hindsight", REPEATED * 6),
    ("A text that is too long", REPEATED * 60),
)


def golden_vectors(name: str, folder: Path) -> list[Golden]:
    """The texts with the twin's vectors, from the published files in `folder`."""
    facts = KNOWN[name].facts
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    config = json.loads((folder / "config.json").read_text())
    weights = load_tensors(folder / "model.safetensors")
    found: list[Golden] = []
    for head, body in TEXTS:
        text = head + facts.separator + body if head and body else head + body
        ids = tokenizer.encode(text).ids
        if len(ids) > facts.max_tokens:
            ids = [*ids[: facts.max_tokens - 1], ids[-1]]
        vector = bert_vector(
            ids,
            weights,
            layers=config["num_hidden_layers"],
            heads=config["num_attention_heads"],
            pooling=facts.pooling,
        )
        found.append(Golden(head, body, tuple(vector.tolist())))
    return found


if __name__ == "__main__":
    _, model, place = sys.argv
    shipped = Path(__file__).resolve().parent.parent / "models/hindsight_models/golden"
    lines = [each.to_dict() for each in golden_vectors(model, Path(place))]
    text = json.dumps(lines, indent=1, ensure_ascii=False) + "\n"
    (shipped / f"{model}.json").write_text(text, encoding="utf-8")
