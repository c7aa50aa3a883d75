"""The last pass of an oracle, kept: a drafter reads what the round before has computed, and pays nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from speculative.distribution import Context, Row
from speculative.oracle.interface import Oracle, check_oracle


def keep_last_pass(oracle: Oracle) -> Oracle:
    """The same oracle, which answers the last pass it has made once more without making it again.

    Parameters
    ----------
    oracle : Oracle
        A pure function of the context.

    Returns
    -------
    Oracle
        For a drafter that reads what the round's pass has said, such as `draft.lookahead`: give it and the
        loop the same one. One pass is kept, and found again by its context and its tree.

    Raises
    ------
    ValueError
        For anything but an oracle.
    """
    check_oracle("keep_last_pass", oracle)
    return replace(oracle, score_rows=_LastPass(oracle).score_rows)


@dataclass
class _LastPass:
    oracle: Oracle
    last: tuple[tuple[Context, Context, Context], list[Row]] | None = None

    def score_rows(self, context: Context, tokens: Context, parents: Context) -> list[Row]:
        asked = context, tokens, tuple(parents)
        last = self.last  # another thread may set it meanwhile
        if last is None or last[0] != asked:
            self.last = last = asked, self.oracle.rows_after(*asked)
        return last[1]
