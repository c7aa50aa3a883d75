"""Checks of what a round is given and of what its drafter and verifier return; errors of one line."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from speculative.distribution import Context, check_row, describe_context
from speculative.draft.proposal import Draft, DraftTree
from speculative.oracle import Oracle, check_vocabulary
from speculative.verify.verdict import Verdict


def check_parts(target: Any, drafter: Any, verify: Any) -> None:
    """Raise where a target, a drafter or a verifier is something else, or speaks of other tokens."""
    check_target(target)
    if isinstance(drafter, Oracle) or not callable(drafter):
        raise ValueError(f"the drafter is {kind_of(drafter)}: make a drafter, draft.model(oracle)")
    if not callable(verify):
        raise ValueError(f"the verifier is {kind_of(verify)}: give a function, such as verify.token")
    check_vocabulary(target, drafter)


def check_target(target: Any) -> None:
    """Raise where a target is no oracle."""
    if not isinstance(target, Oracle):
        raise ValueError(f"the target is {kind_of(target)}: make an oracle, from_probs(function, vocab_size)")


def check_texts(chances: Any, contexts: Any) -> None:
    """Raise where texts decoded side by side have no chance or no prompt each."""
    for name, given, right in (
        ("chances", chances, "[Sampler(np.random.default_rng(seed)) for seed in range(8)]"),
        ("prompts", contexts, "[(1, 2), (3,)]"),
    ):
        if not isinstance(given, Sequence):
            raise ValueError(f"the {name} are {kind_of(given)}: give a list with one a text, {right}")
    for number, chance in enumerate(chances):
        if not (hasattr(chance, "flip") and hasattr(chance, "pick")):
            raise ValueError(
                f"chance {number} is {kind_of(chance)}: give a Sampler(np.random.default_rng(seed))"
            )
    if len(chances) != len(contexts):
        raise ValueError(f"{len(chances)} chances for {len(contexts)} prompts: give each text its own")


def check_draft(draft: Any, num_draft_tokens: int, vocab_size: int, context: Context) -> None:
    """Raise where a proposal is no draft, is too long, or has rows that are no laws over the vocabulary.

    Of a read-only array only the shape is looked at: oracles hand out such rows, checked.
    """
    if not isinstance(draft, Draft | DraftTree):
        raise ValueError(f"the drafter returned {kind_of(draft)}: return a Draft(tokens, probs)")
    if draft.depth > num_draft_tokens:
        raise ValueError(f"the drafter proposed {draft.depth} tokens where {num_draft_tokens} were asked for")
    nodes = range(len(draft)) if isinstance(draft, Draft) else draft.draws
    for node, row in zip(nodes, draft.rows, strict=True):
        if not (isinstance(row, np.ndarray) and row.shape == (vocab_size,)):
            raise _not_a_row(row, _after(draft, node, context), vocab_size)
        if row.flags.writeable:
            try:
                check_row(row, (), vocab_size)
            except ValueError as error:
                fault = str(error).removeprefix("the row at context ()")
                raise ValueError(f"the drafter's row {_after(draft, node, context)}{fault}") from None


def _not_a_row(row: Any, where: str, vocab_size: int) -> ValueError:
    """Return what is wrong with a drafter's row of another type or shape."""
    if isinstance(row, np.ndarray) and row.ndim == 1:
        return ValueError(
            f"the drafter's rows have {len(row)} tokens, the target's {vocab_size}: share a vocabulary"
        )
    kind = f"an array of shape {row.shape}" if isinstance(row, np.ndarray) else kind_of(row)
    return ValueError(
        f"the drafter's row {where} is {kind}: give an array of shape (V,), np.array(row) or rational(row)"
    )


def _after(draft: Draft | DraftTree, node: int, context: Context) -> str:
    """Return where a node's row stands, as errors name it."""
    tokens = draft.tokens[:node] if isinstance(draft, Draft) else _path(draft, node)
    return f"at context {describe_context((*context, *tokens))}"


def _path(tree: DraftTree, node: int) -> Context:
    return (*_path(tree, tree.parents[node - 1]), tree.tokens[node - 1]) if node else ()


def as_verdict(returned: Any, draft: Draft | DraftTree, vocab_size: int) -> tuple[Verdict, list[int]]:
    """Return what a verifier returned as a Verdict, and the nodes it leads through, the root first.

    Of plain tokens, the leading drafts count as accepted.
    """
    plain = not isinstance(returned, Verdict)
    tokens = _as_tokens(returned if plain else returned.tokens)
    if tokens is None:
        raise ValueError(
            f"the verifier returned {returned!r}: return a Verdict or the tokens it emits, for example (3, 1)"
        )
    if not 1 <= len(tokens) <= draft.depth + 1:
        raise ValueError(
            f"the verifier emitted {len(tokens)} tokens for {draft.depth} drafts: emit 1 to {draft.depth + 1}"
        )
    for token in tokens:
        if not 0 <= token < vocab_size:
            raise ValueError(f"the verifier emitted token {token}: give tokens from 0 to {vocab_size - 1}")
    nodes = nodes_along(draft, tokens[:-1])
    leading = len(nodes) - 1
    if not plain and not returned.accepted == leading == len(tokens) - 1:
        raise ValueError(
            f"the verifier returned {returned!r} for drafts {draft.tokens}: `accepted` counts the drafts "
            "that `tokens` begins with, and one more token follows them"
        )
    return Verdict(tokens, leading, () if plain else returned.carried), nodes


def _as_tokens(returned: Any) -> Context | None:
    """Return a tuple, list or 1-d array of whole numbers as a tuple of ints; None for anything else."""
    if isinstance(returned, np.ndarray):
        return tuple(returned.tolist()) if returned.ndim == 1 and returned.dtype.kind in "iu" else None
    if not isinstance(returned, tuple | list) or bool in map(type, returned):
        return None
    try:
        return tuple(map(index, returned))
    except TypeError:
        return None


def nodes_along(draft: Draft | DraftTree, tokens: Context) -> list[int]:
    """Return the nodes that `tokens` lead through, the root first, as far as they are drafts."""
    nodes = [0]
    for token in tokens:
        child = draft.child(nodes[-1], token)
        if child is None:
            break
        nodes.append(child)
    return nodes


def check_stop_tokens(stop_tokens: Any, vocab_size: int) -> frozenset[int]:
    """Return stop tokens as a set, or raise where they are no tokens of the vocabulary."""
    try:
        tokens = frozenset(map(index, stop_tokens))
    except TypeError:
        raise ValueError(f"stop_tokens={stop_tokens!r}: give a set of tokens, for example {{2}}") from None
    if outside := [token for token in tokens if not 0 <= token < vocab_size]:
        raise ValueError(f"stop token {outside[0]}: give tokens from 0 to {vocab_size - 1}")
    return tokens


def kind_of(thing: Any) -> str:
    """What somebody passed, for an error: a short value itself, of others the type."""
    if isinstance(thing, (str, int, float, type(None))):
        return repr(thing)
    name = type(thing).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"
