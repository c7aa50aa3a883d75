"""Drafters by name for a target that is loaded: what the package ships, folders, and what needs no model."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from speculative import draft, model
from speculative.cli.candidate import own_drafter
from speculative.cli.own import OwnCodeError
from speculative.distribution import Context, Row
from speculative.draft import Drafter
from speculative.model import CachedLlama
from speculative.model.config import read_json
from speculative.oracle import Oracle, check_vocabulary, keep_last_pass
from speculative.warp import Warp

LONGEST_MATCH = 8  # tokens that prompt lookup compares
WINDOW, NGRAM, GUESSES = 3, 3, 3  # of lookahead: at most 11 nodes, and paths of 3 tokens


class Loop(NamedTuple):
    """What a decoding loop is given."""

    target: Oracle
    """Warped; where the drafter reads what a pass of it has said, the one that keeps it."""
    drafter: Drafter
    """Made anew for each text: some keep what they have seen of one."""


MakeDrafter: TypeAlias = Callable[[Oracle], Drafter]
Source: TypeAlias = Callable[[Oracle, Warp, MakeDrafter], Loop]
"""`source(target, warp, make_drafter)`, of a target that is not warped yet. The warp goes to both models, so
that every declared law is the sampled one. `make_drafter` says what is drafted from a model or from heads:
`draft.model` a chain, `partial(draft.best_first, num_nodes=8)` a tree; what has no model passes over it."""
MadeOf: TypeAlias = Literal["model", "heads", "text", "target", "own code"]


class Kind(NamedTuple):
    """A drafter that is not loaded yet."""

    made_of: MadeOf
    """As of the table `DRAFTERS`. Those of models and heads draft what `make_drafter` says."""
    load: Callable[[CachedLlama], Source]

    @property
    def shaped(self) -> bool:
        """Whether `make_drafter` says what is drafted: chains, paths, trees."""
        return self.made_of in {"model", "heads"}


def of_model(drafting: Oracle, target: Oracle, warp: Warp, make_drafter: MakeDrafter) -> Loop:
    """Draft from a model of the next token."""
    check_vocabulary(target, drafting)
    return Loop(warp(target), make_drafter(warp(drafting)))


def of_medusa(
    heads: Callable[[Context], list[Row]], target: Oracle, warp: Warp, make_drafter: MakeDrafter
) -> Loop:
    """Draft from heads for the next places."""

    def warped(context: Context) -> list[Row]:
        return [warp.row(row) for row in heads(context)]

    drafter = draft.medusa(warped, target.vocab_size, make_drafter, vocabulary=target.vocabulary)
    return Loop(warp(target), drafter)


def of_eagle(
    head: Callable[[Context], Oracle | None], target: Oracle, warp: Warp, make_drafter: MakeDrafter
) -> Loop:
    """Draft from a head that is another model each round."""

    def warped(context: Context) -> Oracle | None:
        drafting = head(context)
        return None if drafting is None else warp(drafting)

    drafter = draft.eagle(warped, target.vocab_size, make_drafter, vocabulary=target.vocabulary)
    return Loop(warp(target), drafter)


def of_text(make: Callable[..., Drafter], target: Oracle, warp: Warp, _: MakeDrafter) -> Loop:
    """Draft from the text so far; `make(vocab_size, vocabulary=...)` makes a drafter."""
    return Loop(warp(target), make(target.vocab_size, vocabulary=target.vocabulary))


def of_itself(target: Oracle, warp: Warp, _: MakeDrafter) -> Loop:
    """Draft by lookahead: from the target's own passes. A warp changes none of its most probable tokens."""
    kept = keep_last_pass(warp(target))
    return Loop(kept, draft.lookahead(kept, window=WINDOW, ngram=NGRAM, guesses=GUESSES))


def own_source(where: str, target: Oracle) -> Source:
    """Draft by `file.py:function`, which gets no warp."""
    return partial(_of_own_code, own_drafter(where, target))


def _of_own_code(drafter: Drafter, target: Oracle, warp: Warp, _: MakeDrafter) -> Loop:
    return Loop(warp(target), drafter)


def _own(where: str, target: CachedLlama) -> Source:
    return own_source(where, target.oracle)


def _llama(name: str | Path, target: CachedLlama) -> Source:
    """Draft from another Llama, which sees the end of a text that is too long for it."""
    drafting = model.load(name, sliding=True).oracle
    check_vocabulary(target.oracle, drafting)
    return partial(of_model, drafting)


def _ngram(name: str | Path, target: CachedLlama) -> Source:
    distilled = model.load_ngram(name)
    check_vocabulary(target.oracle, distilled)
    return partial(of_model, distilled)


def _medusa(name: str | Path, target: CachedLlama) -> Source:
    return partial(of_medusa, model.load_medusa(target, name))


def _eagle(name: str | Path, target: CachedLlama) -> Source:
    return partial(of_eagle, model.load_eagle(target, name))


def _any_target(source: Source, _: CachedLlama) -> Source:
    return source


WITHOUT_MODEL: dict[str, tuple[MadeOf, Source]] = {
    "lookup": ("text", partial(of_text, partial(draft.lookup, max_match=LONGEST_MATCH))),
    "suffix": ("text", partial(of_text, draft.suffix)),
    "lookahead": ("target", of_itself),
}
"""What drafts for any target."""
TRAINED = {
    "ngram": Kind("model", partial(_ngram, "shakespeare-ngram")),
    "neural": Kind("model", partial(_ngram, "shakespeare-neural")),
    "5gram": Kind("model", partial(_ngram, "shakespeare-5gram")),
    "draft": Kind("model", partial(_llama, "shakespeare-draft")),
    "draft-kl": Kind("model", partial(_llama, "shakespeare-draft-kl")),
    "draft-tv": Kind("model", partial(_llama, "shakespeare-draft-tv")),
    "medusa": Kind("heads", partial(_medusa, "shakespeare-medusa")),
    "eagle": Kind("heads", partial(_eagle, "shakespeare-eagle")),
    **{
        name: Kind(made_of, partial(_any_target, source)) for name, (made_of, source) in WITHOUT_MODEL.items()
    },
}
"""Every drafter for a loaded target, by name."""
OF_TYPE: dict[str, tuple[MadeOf, Callable[[Path, CachedLlama], Source]]] = {
    "ngram": ("model", _ngram),
    "neural_ngram": ("model", _ngram),
    "medusa": ("heads", _medusa),
    "eagle": ("heads", _eagle),
}
"""What the folders are read by whose model_type is no Llama's."""


def kind_named(name: str) -> Kind:
    """Return how a drafter is loaded: by its name, by a checkpoint folder, or `file.py:function`.

    Raises
    ------
    ValueError
        For what is none of them.
    """
    if name in TRAINED:
        return TRAINED[name]
    if (folder := Path(name)).is_dir():
        made_of, load = OF_TYPE.get(model_type(folder), ("model", _llama))
        return Kind(made_of, partial(load, folder))
    if ":" in name:
        return Kind("own code", partial(_own, name))
    if name != (here := name.removeprefix("shakespeare-")) and here in TRAINED:
        raise ValueError(
            f"--drafter {name!r} is unknown: the drafters have shorter names here, write --drafter {here}"
        )
    raise ValueError(
        f"--drafter {name!r} is unknown: write one of {', '.join(TRAINED)}, the path of a checkpoint folder, "
        "or file.py:function for one of your own"
    )


def model_type(folder: Path) -> str:
    """Return what a folder's config.json says it is; "llama", whose reader says what is wrong, of others."""
    try:
        return str(read_json(folder / "config.json")["model_type"])
    except (ValueError, TypeError, KeyError):
        return "llama"


def load_drafter(name: str, target: CachedLlama) -> Source:
    """Load a drafter for a target.

    Parameters
    ----------
    name : str
        See `kind_named`.
    target : CachedLlama
        Whose tokens are drafted.

    Returns
    -------
    Source
        Makes the loop's target and drafter of a warp and of what is to be drafted.

    Raises
    ------
    ValueError
        One line that names the drafter: for an unknown one, and for one that does not fit the target.
    """
    found = kind_named(name)
    try:
        return found.load(target)
    except OwnCodeError:
        raise
    except (ValueError, ImportError) as error:  # the package for a tokenizer may be missing
        raise ValueError(f"--drafter {name}: {error}") from None
