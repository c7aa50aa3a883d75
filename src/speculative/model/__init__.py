"""Models to run on: a Llama in numpy with its cache, heads on it, n-grams; bundled weights and text."""

from speculative.model.batched import BatchedLlama
from speculative.model.bundle import load, load_eagle, load_medusa, load_ngram
from speculative.model.cache import CachedLlama
from speculative.model.checkpoint import read_checkpoint, weight_shapes, write_checkpoint
from speculative.model.config import LlamaConfig
from speculative.model.eagle import EagleHead
from speculative.model.llama import Llama
from speculative.model.medusa import MedusaHeads
from speculative.model.ngram import cross_entropy, fit_ngram
from speculative.model.text import Characters, bundled_text
from speculative.model.tokenizer import Subwords, read_tokenizer, write_tokenizer
from speculative.model.with_llama_cpp import llama_cpp_oracle
from speculative.model.with_transformers import transformers_oracle

__all__ = [
    "BatchedLlama",
    "CachedLlama",
    "Characters",
    "EagleHead",
    "Llama",
    "LlamaConfig",
    "MedusaHeads",
    "Subwords",
    "bundled_text",
    "cross_entropy",
    "fit_ngram",
    "llama_cpp_oracle",
    "load",
    "load_eagle",
    "load_medusa",
    "load_ngram",
    "read_checkpoint",
    "read_tokenizer",
    "transformers_oracle",
    "weight_shapes",
    "write_checkpoint",
    "write_tokenizer",
]
