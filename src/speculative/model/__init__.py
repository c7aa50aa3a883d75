"""Models to run on: n-grams fitted on text, the bundled text and its tokenizer."""

from speculative.model.ngram import cross_entropy, fit_ngram
from speculative.model.text import Characters, bundled_text

__all__ = ["Characters", "bundled_text", "cross_entropy", "fit_ngram"]
