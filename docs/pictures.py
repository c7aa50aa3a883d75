"""Draw the README's picture: `python docs/pictures.py` (needs the extra `plot`)."""

from pathlib import Path

import matplotlib.pyplot as plt

from speculative import plot, rational, residual, table
from speculative.laws import paths

TARGET = table({(): rational(["1/2", "3/10", "1/5"])})
DRAFT = table({(): rational(["1/5", "3/10", "1/2"])})


def one_token(chance):
    """Draw one token by speculative sampling."""
    target, draft = TARGET(()), DRAFT(())
    drafted = chance.pick(draft)
    if chance.flip(min(1, target[drafted] / draft[drafted])):
        return drafted
    return chance.pick(residual(target, draft))


if __name__ == "__main__":
    figure, axes = plt.subplots(figsize=(9, 4))
    plot.decision_tree(paths(one_token), labels=["the", "a", "one"], ax=axes)
    figure.savefig(Path(__file__).parent / "_static" / "one_token.png", dpi=120, bbox_inches="tight")
