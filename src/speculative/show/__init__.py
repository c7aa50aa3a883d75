"""What people see in a terminal: marked text and tables (needs rich, the extra `cli`).

Functions return rich renderables or print to a console they are given; none computes anything.
"""

try:
    import rich  # noqa: F401 - only to say what to install
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        'show needs rich: pip install -e ".[cli]" in a checkout', name="rich"
    ) from error

from speculative.show.bench import BenchLine, bench_table, explained
from speculative.show.console import Terminal, exact, plain, progress, table, terminal, waiting
from speculative.show.costs import Batch, Length, batch_table, length_table
from speculative.show.generation import Comparison, Transcript, figures_table
from speculative.show.proofs import Examined, Reason, failure_report, in_words, proof_table
from speculative.show.verifiers import Listed, provisos, verifier_table

__all__ = [
    "Batch",
    "BenchLine",
    "Comparison",
    "Examined",
    "Length",
    "Listed",
    "Reason",
    "Terminal",
    "Transcript",
    "batch_table",
    "bench_table",
    "exact",
    "explained",
    "failure_report",
    "figures_table",
    "in_words",
    "length_table",
    "plain",
    "progress",
    "proof_table",
    "provisos",
    "table",
    "terminal",
    "verifier_table",
    "waiting",
]
