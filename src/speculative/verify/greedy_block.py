"""Greedy block verification: accept all that one round can, and let the next rounds make up for it.

Sun et al. 2024, appendix on greedy block verification; Zhou et al. 2026, algorithm 1 ("naive" hierarchical
verification), is the same rule. Only with what it carries from round to round is it lossless.
"""

from __future__ import annotations

from collections.abc import Sequence

from speculative.chance import Chance, Number
from speculative.distribution import Row, excess, normalised, residual
from speculative.draft.proposal import Draft
from speculative.verify.verdict import Carried, Verdict


def greedy_block(
    chance: Chance, draft: Draft, target_probs: Sequence[Row], *, carried: tuple[Carried, ...] = ()
) -> Verdict:
    """Accept a beginning of the draft by its joint ratio, unclipped; carry what that took from later tokens.

    Parameters
    ----------
    chance : Chance
        `flip`s from the longest beginning down to the first that passes, then one `pick`.
    draft : Draft
        k tokens with the laws they were drawn from: always the same draft model, and at least as many tokens
        as `carried` has positions.
    target_probs : sequence of k + 1 rows, each (V,)
        Row i is the target's law after the context and draft.tokens[:i].
    carried : tuple of Carried
        The `carried` of the last round's verdict.

    Returns
    -------
    Verdict
        Its `carried` says for how many more tokens the target is changed, and how.

    Raises
    ------
    ValueError
        For a draft with fewer tokens than `carried` has positions: their draft laws are needed.

    Notes
    -----
    **Law.** The emitted tokens alone are *not* continued by the target. Continued by further rounds, each
    given what the last one carried, they have exactly the target's joint law. The drafts accepted per round
    reach the bound of the joint coupling, the sum over beginnings of min(target, draft).
    """
    if carried and len(draft) < carried[-1].positions:
        raise ValueError(
            f"greedy_block carries {carried[-1].positions} positions and was given {len(draft)} drafts: "
            "draft as many, from the same model"
        )
    changes, shares = carried, [(1, 1)]  # shares: [k+1], the joint laws of the beginnings, see `_joint`
    layers = []  # [k], the changes at each position and the rows that they make of the target's
    for i, (drafted, draft_row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
        layers.append((changes, _changed(changes, target_probs[i], draft_row)))
        shares.append(_joint(shares[i], layers[i][1][-1][drafted], draft_row[drafted]))
        changes = _after(drafted, changes, layers[i][1], draft_row)
    whole, drafted_whole = shares[-1]
    if chance.flip(whole / drafted_whole if whole < drafted_whole else 1):
        return Verdict((*draft.tokens, chance.pick(target_probs[len(draft)])), accepted=len(draft))
    accepted = next(
        i
        for i in range(len(draft) - 1, -1, -1)
        if i == 0 or chance.flip(_acceptance(shares[i][0] * layers[i][1][-1], shares[i][1] * draft.probs[i]))
    )
    (changes, rows), draft_row, share = layers[accepted], draft.probs[accepted], shares[accepted]
    drawn = chance.pick(residual(share[0] * rows[-1], share[1] * draft_row))
    opened = (*changes, Carried(len(draft) - accepted, *share))
    return Verdict((*draft.tokens[:accepted], drawn), accepted, _after(drawn, opened, rows, draft_row))


def _joint(share: tuple[Number, Number], target: Number, draft: Number) -> tuple[Number, Number]:
    """Return the joint probabilities by target and by draft one token on, the larger of them 1."""
    target, draft = share[0] * target, share[1] * draft
    largest = max(target, draft)
    return (target / largest, draft / largest) if largest else (0, 1)  # what underflows in both: not wanted


def _acceptance(target: Row, draft: Row) -> Number:
    """Return the share of what the target has more in what either has more than the other."""
    more, less = excess(target, draft).sum(), excess(draft, target).sum()
    return more / max(more, less) if less > 0 else 1


def _changed(changes: Sequence[Carried], target_row: Row, draft_row: Row) -> list[Row]:
    """Return the target's row and what each change in turn makes of it, (len(changes) + 1, V)."""
    rows = [target_row]
    for change in changes:
        left = excess(change.target * rows[-1], change.draft * draft_row)
        rows.append(normalised(left) if left.any() else rows[-1])  # without mass: nothing leads here
    return rows


def _after(
    token: int, changes: Sequence[Carried], rows: Sequence[Row], draft_row: Row
) -> tuple[Carried, ...]:
    """Return the changes as they are one token on; none after a token that could not have been drafted."""
    if not draft_row[token]:
        return ()
    return tuple(
        Carried(change.positions - 1, *_joint((change.target, change.draft), row[token], draft_row[token]))
        for change, row in zip(changes, rows, strict=False)  # the last row is the base of no change yet
        if change.positions > 1
    )
