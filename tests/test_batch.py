"""C22, the loop: texts decoded side by side are what each would be alone, and a pass is made for all."""

import itertools
import re
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plain_llama import llama_of
from speculative import (
    autoregress,
    draft,
    generate,
    law,
    rational,
    sample,
    table,
    temperature,
    verify,
)
from speculative import batch as loop
from speculative.batch import Batch, BatchDrafter, Wanted, chains, each, generate_batch
from speculative.chance import Sampler
from speculative.model import CachedLlama, Characters
from speculative.model import batched as module
from speculative.model.attention import mix, shape_of
from speculative.model.batched import BatchedLlama
from speculative.model.llama import forward
from speculative.oracle import keep_last_pass

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
import batch as script  # the one that measures

VOCAB_SIZE, LIMIT = 7, 23
PROMPTS = [(1, 2, 3), (), (4, 4), (6, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 6, 0, 0, 1, 1, 2), (5,)]


def chances(number=5):
    return [Sampler(np.random.default_rng(seed)) for seed in range(number)]


# A stacked pass

tokens = st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=6).map(tuple)
numbers = st.lists(st.integers(0, 99), min_size=6, max_size=6)
questions = st.dictionaries(
    st.integers(0, 2), st.tuples(st.integers(0, 99), tokens, tokens, numbers), min_size=1
)


class Slots:
    """Asks several slots this and that at once, and holds each answer against the plain model's."""

    def __init__(self, slots=3, **sizes):
        llama, self.plain = llama_of(**sizes)
        self.model = BatchedLlama(llama, slots)
        self.batch = self.model.batch
        self.last = dict.fromkeys(range(slots), ((), (), ()))

    def question(self, slot, number, behind, drafted, numbers):
        """Go on from a node of the slot's last tree, or from a part of its text, and draft a tree."""
        context, nodes, parents = self.last[slot]
        node = number % (len(nodes) + 1)
        way = ()
        while node:
            way, node = (nodes[node - 1], *way), parents[node - 1]
        kept = len(context) if number < 80 else number % (len(context) + 1)
        context = ((context[:kept] + way if number < 80 else context[:kept]) + behind)[:LIMIT]
        drafted = drafted[: LIMIT - len(context)]
        return context, drafted, tuple(n % (i + 1) for i, n in enumerate(numbers[: len(drafted)]))

    def ask(self, asked):
        asked = {slot: self.question(slot, *rest) for slot, rest in asked.items()}
        self.last.update(asked)
        self.batch.ahead(asked)
        with mock.patch.object(module, "forward", side_effect=AssertionError("computed again")):
            self.compare(asked)

    def compare(self, asked):
        for slot, (context, drafted, parents) in asked.items():
            ways = [context]
            for token, parent in zip(drafted, parents, strict=True):
                ways.append((*ways[parent], token))
            rows = self.batch.oracles[slot].score_tree(context, drafted, parents)
            for row, way in zip(rows, ways, strict=True):
                same_law(row, self.plain.row(way))


def same_law(row, logits):
    shares = np.exp(logits - logits.max())
    np.testing.assert_allclose(row, shares / shares.sum(), atol=1e-5)


@given(st.sampled_from([1, 2, 4]), st.sampled_from([1, 3, 16]), st.lists(questions, max_size=8))
def test_c11_whatever_slots_are_asked_the_rows_are_those_of_an_uncached_model(heads, alone, asked):
    slots = Slots(num_key_value_heads=heads)
    with mock.patch.object(module, "ALONE", alone):
        for each_slot in asked:
            slots.ask(each_slot)


def random_questions(rng, slots=3):
    return {
        int(slot): (
            int(rng.integers(100)),
            tuple(rng.integers(VOCAB_SIZE, size=rng.integers(3)).tolist()),
            tuple(rng.integers(VOCAB_SIZE, size=rng.integers(6)).tolist()),
            rng.integers(100, size=6).tolist(),
        )
        for slot in np.flatnonzero(rng.random(slots) < 0.8)
    }


def run(seeds):
    for seed in seeds:
        rng, slots = np.random.default_rng(seed), Slots()
        for _ in range(12):
            slots.ask(random_questions(rng))


def test_a_question_that_was_not_announced_is_answered_too():
    slots = Slots()
    slots.compare({1: ((1, 2), (3, 4), (0, 0)), 0: ((1,), (), ()), 2: ((), (5,), (0,))})
    same_law(slots.batch.oracles[1]((1, 2, 4, 6)), slots.plain.row((1, 2, 4, 6)))
    slots.batch.ahead({0: ((3, 3), (), ()), 1: ((1, 2, 4), (6,), (0,))})
    slots.compare({1: ((5,), (), ())})  # something else
    slots.compare({0: ((3, 3), (), ())})
    slots.batch.ahead({})
    with mock.patch.object(module, "forward", side_effect=AssertionError("computed again")):
        slots.compare({0: ((3, 3), (), ())})
        slots.batch.ahead({0: ((3,), (), ())})  # shorter: all of it was read
        slots.compare({0: ((3,), (), ())})


@pytest.mark.parametrize(("at_layer", "after"), [(0, False), (0, True), (1, False), (1, True)])
def test_an_interrupted_pass_leaves_no_trace(at_layer, after):
    def interrupted(llama, tokens, positions, attend):
        def broken_attend(layer, *qkv):
            if layer == at_layer and not after:
                raise KeyboardInterrupt
            attended = attend(layer, *qkv)
            if layer == at_layer:
                raise KeyboardInterrupt
            return attended

        return forward(llama, tokens, positions, broken_attend)

    rng, slots = np.random.default_rng(0), Slots()
    for _ in range(6):
        slots.ask(random_questions(rng))
        asked = {slot: slots.question(slot, *rest) for slot, rest in random_questions(rng).items()}
        with mock.patch.object(module, "forward", interrupted):
            try:
                slots.batch.ahead(asked)
            except KeyboardInterrupt:
                slots.last.update(asked)


def test_rows_are_stacked_and_only_new_ones_computed():
    slots, rows = Slots(), []

    def counting(llama, tokens, *rest):
        rows.append(len(tokens))
        return forward(llama, tokens, *rest)

    with mock.patch.object(module, "forward", counting):
        for asked in [
            {
                0: ((1, 2), (3,), (0,)),
                1: ((1,), (), ()),
                2: ((), (5, 6), (0, 0)),
            },  # the first token too: 4 + 2 + 3
            {0: ((1, 2, 3, 3), (3,), (0,)), 1: ((1, 4), (5,), (0,)), 2: ((6, 1), (), ())},  # 2 + 2 + 1
            {2: ((6, 1), (0,), (0,)), 1: ((1, 4), (5,), (0,))},  # the same tree is computed once more
        ]:
            slots.batch.ahead(asked)
    assert rows == [9, 5, 2]


def test_a_new_text_is_read_alone_but_for_its_last_token():
    slots, rows = Slots(), []

    def counting(llama, tokens, *rest):
        rows.append(len(tokens))
        return forward(llama, tokens, *rest)

    text = (1, 2, 3) * 7
    with mock.patch.object(module, "forward", counting):
        for length in (14, 15, 16):
            slots.batch.ahead({0: (text[:length], (), ()), 1: ((), (), ())})
            slots.batch.ahead({0: ((), (), ())})
    assert rows == [15 + 1, 15, 1]  # up to 15 new tokens are read together with the other slot's
    slots.compare({0: (text[:16], (), ())})


def test_memory_is_that_of_sessions_from_the_start():
    llama, _ = llama_of()
    one = CachedLlama(llama, context_limit=9)
    one.oracle(())
    slots = BatchedLlama(llama, 5, context_limit=9)
    assert slots.nbytes == 5 * one.nbytes
    rng = np.random.default_rng(0)
    for _ in range(50):
        context = rng.integers(VOCAB_SIZE, size=rng.integers(10))
        slots.batch.oracles[rng.integers(5)](context)
    assert slots.nbytes == 5 * one.nbytes


# Texts


def stacked(seed=1, slots=3, **sizes):
    return BatchedLlama(llama_of(seed, **sizes)[0], slots).batch


def single(seed=1, **sizes):
    return CachedLlama(llama_of(seed, **sizes)[0]).oracle


SMALL = {"seed": 2, "num_hidden_layers": 1, "hidden_size": 8}


def texts(target, drafter, **options):
    return generate_batch(chances(), target, drafter, PROMPTS, **{"max_new_tokens": 12, **options})


def texts_alone(target, drafter, **options):
    options = {"max_new_tokens": 12, **options}
    return [sample(generate, target, drafter, prompt, rng=i, **options) for i, prompt in enumerate(PROMPTS)]


def same_texts(together, alone):
    for ours, theirs in zip(together, alone, strict=True):
        assert ours.tokens == theirs.tokens
        assert ours.stop_reason == theirs.stop_reason
        assert [one[:4] for one in ours.rounds] == [one[:4] for one in theirs.rounds]
        np.testing.assert_allclose(ours.log_probs, theirs.log_probs, atol=1e-4)


@pytest.mark.parametrize("slots", [1, 2, 5, 7])
@pytest.mark.parametrize(
    ("make", "options"),
    [
        (draft.model, {"num_draft_tokens": 3}),
        (draft.model, {"num_draft_tokens": 3, "verify": verify.greedy_block}),  # carries
        (draft.model, {"num_draft_tokens": 3, "stop_tokens": {2, 4}}),
        (draft.model, {"num_draft_tokens": 0}),
        (
            lambda oracle: draft.tree(oracle, branching=(2, 2)),
            {"num_draft_tokens": 2, "verify": verify.recursive},
        ),
    ],
    ids=["chains", "carries", "stops", "plain", "trees"],
)
def test_each_text_is_the_one_that_it_would_be_alone(slots, make, options):
    oracle = single(**SMALL)
    same_texts(
        texts(stacked(slots=slots), each(lambda slot: make(oracle)), **options),
        texts_alone(single(), make(oracle), **options),
    )


def test_no_drafts_is_plain_decoding():
    together = texts(stacked(), each(lambda slot: draft.model(single(**SMALL))), num_draft_tokens=0)
    for i, (ours, prompt) in enumerate(zip(together, PROMPTS, strict=True)):
        assert ours.tokens == sample(autoregress, single(), prompt, max_new_tokens=12, rng=i).tokens


@pytest.mark.parametrize("slots", [2, 5])
def test_chains_are_drafted_in_stacked_passes(slots):
    options = {"num_draft_tokens": 3}
    small = stacked(slots=slots, max_position_embeddings=20, **SMALL)  # ends before the target does
    one = single(max_position_embeddings=20, **SMALL)
    together = texts(stacked(slots=slots), chains(small), **options)
    same_texts(together, texts_alone(single(), draft.model(one), **options))
    assert {one.drafted for text in together for one in text.rounds} == {0, 1, 2, 3}


# A drafter that remembers its text


def looking_ahead(slots):
    """A target that is asked for its last pass again, and what makes the drafters that do so."""
    stack = stacked(slots=slots)
    target = replace(stack, oracles=tuple(map(keep_last_pass, stack.oracles)))
    return target, lambda slot: draft.lookahead(target.oracles[slot], window=3)


def ahead_alone():
    """Each text by a drafter of its own."""
    oracle = keep_last_pass(single())
    options = {"max_new_tokens": 12, "verify": verify.recursive}
    return [
        sample(generate, oracle, draft.lookahead(oracle, window=3), prompt, rng=i, **options)
        for i, prompt in enumerate(PROMPTS)
    ]


@pytest.mark.parametrize("slots", [1, 2, 5])
def test_a_text_has_a_drafter_of_its_own_whichever_slot_it_takes(slots):
    target, make = looking_ahead(slots)
    same_texts(texts(target, each(make), verify=verify.recursive), ahead_alone())


def one_for_all(make):
    """The fault: all texts are drafted from one pool."""
    shared = make(0)
    return BatchDrafter(
        lambda wanted: {slot: shared.propose(*want[:3]) for slot, want in wanted.items()}, VOCAB_SIZE
    )


def one_a_slot(make):
    """The fault: a text goes on with the pool of the one before it in its slot."""
    made = {}

    def propose(wanted):
        return {slot: made.setdefault(slot, make(slot)).propose(*want[:3]) for slot, want in wanted.items()}

    return BatchDrafter(propose, VOCAB_SIZE)


@pytest.mark.parametrize(("fault", "slots"), [(one_for_all, 5), (one_a_slot, 1)])
def test_a_drafter_that_is_shared_is_seen(fault, slots):
    target, make = looking_ahead(slots)
    with pytest.raises(AssertionError):
        same_texts(texts(target, fault(make), verify=verify.recursive), ahead_alone())


def test_drafters_are_made_when_they_are_first_needed():
    made = []

    def make(slot):
        made.append(slot)
        return draft.lookup(VOCAB_SIZE)

    drafter = each(make)
    assert made == [0, 0]  # to see that they are two
    for _ in range(2):
        made.clear()
        texts(stacked(slots=2), drafter)
        assert sorted(set(made)) == [0, 1]
        assert len(made) == len(PROMPTS)
    assert drafter.vocab_size == VOCAB_SIZE


@contextmanager
def counted_passes():
    """The number of rows of each pass of a stacked model."""
    rows = []

    def counted(llama, tokens, *rest):
        rows.append(len(tokens))
        return forward(llama, tokens, *rest)

    with mock.patch.object(module, "forward", counted):
        yield rows


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_c22_one_stacked_pass_a_round_whatever_the_batch_and_nobody_waits(size):
    """In a round a text adds a row for its last token and one for each draft, and at first its prompt's."""
    prompts = [(i % VOCAB_SIZE, i // VOCAB_SIZE) for i in range(size)]
    drafter = each(lambda slot: draft.model(single(**SMALL)))
    with counted_passes() as rows:
        made = generate_batch(
            chances(size), stacked(slots=size), drafter, prompts, max_new_tokens=12, num_draft_tokens=3
        )
    rounds = [text.rounds for text in made]
    assert [len(text.tokens) for text in made] == [12] * size
    assert len(rows) == max(map(len, rounds))
    first, *others = (sum(1 + text[i].drafted for text in rounds if i < len(text)) for i in range(len(rows)))
    assert rows == [first + 2 * size, *others]  # the model's own first token, and one more of the prompt
    assert (len({len(text) for text in rounds}) > 1) == (size > 1)  # acceptance is ragged


def test_texts_that_are_computed_one_by_one_are_seen():
    """The planted fault: nothing is computed ahead, and every text makes its own pass."""
    alone = replace(stacked(slots=5), ahead=lambda questions: None)
    drafter = each(lambda slot: draft.model(single(**SMALL)))
    with counted_passes() as rows:
        made = generate_batch(chances(5), alone, drafter, [(1,)] * 5, max_new_tokens=12, num_draft_tokens=3)
    rounds = [len(text.rounds) for text in made]
    assert len(rows) == sum(rounds) > max(rounds)


@pytest.mark.parametrize("size", [1, 5])
def test_chains_take_as_many_passes_as_tokens_whatever_the_batch(size):
    with counted_passes() as rows:
        drafts = chains(stacked(slots=size, **SMALL)).propose(
            {slot: Wanted(chance, (1,), 3, {}) for slot, chance in enumerate(chances(size))}
        )
    assert [len(one) for one in drafts.values()] == [3] * size
    assert rows == [2 * size, size, size]


def test_warps_of_slots():
    target, small = stacked(slots=2), single(**SMALL)
    colder = replace(target, oracles=tuple(map(temperature(0.5), target.oracles)))
    drafter = draft.model(temperature(0.5)(small))
    same_texts(
        texts(colder, each(lambda slot: replace(drafter))), texts_alone(temperature(0.5)(single()), drafter)
    )


def test_limits_and_nothing_to_do():
    drafter = each(lambda slot: draft.model(single(**SMALL)))
    made = texts(stacked(), drafter, max_new_tokens=99)
    assert [text.stop_reason for text in made] == ["context_limit"] * 5
    assert [len(text.tokens) + len(prompt) for text, prompt in zip(made, PROMPTS, strict=True)] == [
        LIMIT + 1
    ] * 5
    assert [text.tokens for text in texts(stacked(), drafter, max_new_tokens=0)] == [()] * 5
    assert generate_batch([], stacked(), drafter, [], max_new_tokens=3) == []


TARGET = table({(): rational([".1", ".6", ".3"]), (1,): rational(["0", "1/5", "4/5"])})
DRAFT = table({(): rational([".5", ".25", ".25"]), (2,): rational(["1/3"] * 3)})
OPTIONS = {"max_new_tokens": 2, "num_draft_tokens": 1}


def joint(chance, drafter, target=None):
    target = Batch((TARGET,) * 2) if target is None else target
    made = generate_batch([chance, chance], target, drafter, [(1,), ()], **OPTIONS)
    return tuple(text.tokens for text in made)


@pytest.mark.parametrize(
    "drafter", [each(lambda slot: draft.model(DRAFT)), chains(Batch((DRAFT,) * 2))], ids=["each", "chains"]
)
def test_c22_the_exact_law_of_texts_decoded_together_is_the_product_of_their_own_laws(drafter):
    """Exact, by every path: with one chance for both, each text's questions are its own."""
    laws = [
        law(autoregress, TARGET, prompt, max_new_tokens=2).map(lambda made: made.tokens)
        for prompt in [(1,), ()]
    ]
    product = {(a, b): p * q for (a, p), (b, q) in itertools.product(*(one.items() for one in laws))}
    together = law(joint, drafter)
    assert together.exact
    assert dict(together.items()) == product


# Faults that must be seen


def unmasked(queries, keys, values, mask):
    """Slots see what their buffers hold behind their own texts."""
    return mix(queries, keys, values, np.where(np.isinf(mask), 0, mask))


def without_rows(queries, keys, values, mask):
    """Each row sees all of its slot's rows."""
    mask = mask.copy()
    mask[:] = mask[:, -1:]
    return mix(queries, keys, values, mask)


def slots_mixed_up(queries, keys, values, mask):
    return mix(queries, keys[::-1], values[::-1], mask)


def without_depth(tokens, parents):
    places, mask = shape_of(tokens, parents)
    return np.arange(len(places)), mask


class WithoutSlots(BatchedLlama):
    """All slots share the first one's buffers."""

    def _view(self, slot):
        return super()._view(0)


FAULTS = {
    "no padding": lambda: mock.patch.object(module, "mix", unmasked),
    "rows that see later ones": lambda: mock.patch.object(module, "mix", without_rows),
    "slots mixed up": lambda: mock.patch.object(module, "mix", slots_mixed_up),
    "places of nodes by number, not by depth": lambda: mock.patch.object(module, "shape_of", without_depth),
    "slots that share a buffer": lambda: mock.patch.dict(globals(), BatchedLlama=WithoutSlots),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_faults_of_passes_are_seen(fault):
    with fault(), pytest.raises(AssertionError):
        run(range(10))


def test_without_a_fault_nothing_is_seen():
    run(range(10))


def first_chance(wanted):
    """All texts are drafted by the chance of the first: they are no longer what they would be alone."""
    chance = wanted[min(wanted)].chance
    drafter = draft.model(single(**SMALL))
    return {slot: drafter.propose(chance, *want[1:3]) for slot, want in wanted.items()}


def test_drafts_of_another_text_are_seen():
    """They are verified against their own law, so that the law stays; the text by the seed does not."""
    drafter = BatchDrafter(first_chance, VOCAB_SIZE)
    with pytest.raises(AssertionError):
        same_texts(texts(stacked(), drafter), texts_alone(single(), draft.model(single(**SMALL))))


def test_a_text_judged_behind_another_is_seen():
    verified, contexts = loop.verified, [(1,)]

    def faulty(chance, target, one_draft, context, **options):
        contexts.append(context)
        return verified(chance, target, one_draft, contexts.pop(0), **options)

    right = law(joint, each(lambda slot: draft.model(DRAFT)))
    with mock.patch.object(loop, "verified", faulty):
        assert law(joint_from_start(contexts), each(lambda slot: draft.model(DRAFT))) != right


def joint_from_start(contexts):
    """`joint` as a pure program: nothing is left of the walk before."""

    def program(chance, drafter):
        contexts[:] = [(1,)]
        return joint(chance, drafter)

    return program


# Errors

LOOKUPS = each(lambda slot: draft.lookup(VOCAB_SIZE))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BatchedLlama(llama_of()[0], 0), "slots = 0 is too small: give an int of at least 1"),
        (
            lambda: BatchedLlama(llama_of()[0], 2, context_limit=24),
            "context_limit is 24: the model has positions for contexts of 23 tokens at most",
        ),
        (
            lambda: BatchedLlama(llama_of()[0], 2, tokenizer=Characters("ab")),
            "vocabulary has 2 strings for 7 tokens: give as many",
        ),
        (
            lambda: stacked().oracles[0].score_tree((1,) * 23, (1,) * 65, (0,) * 65),
            "a context of 24 tokens is over the limit of 23: give a shorter context, or draft fewer tokens",
        ),
        (
            lambda: stacked().oracles[0].score_tree((1,) * 22, (1,) * 66, (0,) * 66),
            "a tree of 66 nodes behind 22 tokens: the slot has room for 65",
        ),
        (
            lambda: stacked(bos_token_id=None).oracles[0](()),
            "an empty context, and this model has no first token (bos_token_id): give one token or more",
        ),
        (
            lambda: each(draft.model(DRAFT)),
            "each of a Drafter: give a function that makes a drafter for each text, "
            "each(lambda slot: draft.model(oracle))",
        ),
        (
            lambda: each(None),
            "each of None: give a function that makes a drafter for each text, "
            "each(lambda slot: draft.model(oracle))",
        ),
        (
            lambda: each(lambda slot: DRAFT),
            "each of a function that returned an Oracle: let it return a drafter, "
            "each(lambda slot: draft.model(oracle))",
        ),
        (
            lambda: each([draft.lookup(VOCAB_SIZE)].__getitem__),
            "each of a function that returned the same drafter twice: make a new one at each call, "
            "each(lambda slot: draft.model(oracle))",
        ),
        (lambda: chains(DRAFT), "chains of an Oracle: give a batch, chains(Batch((oracle,) * 8))"),
        (lambda: Batch([TARGET]), "Batch of a list: give a tuple, Batch((oracle,) * 8)"),
        (lambda: Batch(TARGET), "Batch of an Oracle: give a tuple, Batch((oracle,) * 8)"),
        (lambda: Batch(()), "Batch of no oracle: give a tuple with one a slot, Batch((oracle,) * 8)"),
        (lambda: Batch((TARGET, None)), "slot 1 has None: give oracles, Batch((oracle,) * 8)"),
        (
            lambda: Batch((TARGET, single())),
            "slot 1 has Oracle(vocab_size=7, context_limit=23) and slot 0 "
            "Oracle(vocab_size=3, context_limit=None): give oracles of one model",
        ),
        (
            lambda: texts(TARGET, each(lambda slot: draft.model(DRAFT))),
            "the target is an Oracle: give a batch, Batch((oracle,) * 8), or that of a BatchedLlama",
        ),
        (
            lambda: texts(BatchedLlama(llama_of()[0], 2), each(lambda slot: draft.model(DRAFT))),
            "the target is a BatchedLlama: give a batch, Batch((oracle,) * 8), or that of a BatchedLlama",
        ),
        (
            lambda: texts(stacked(), draft.model(single())),
            "the drafter is a Drafter: make one for batches, each(lambda slot: draft.model(oracle)) or "
            "chains(Batch((oracle,) * 8))",
        ),
        (
            lambda: generate_batch(range(2), stacked(), LOOKUPS, PROMPTS[:2], max_new_tokens=1),
            "chance 0 is 0: give a Sampler(np.random.default_rng(seed))",
        ),
        (
            lambda: generate_batch(chances()[0], stacked(), LOOKUPS, PROMPTS, max_new_tokens=1),
            "the chances are a Sampler: give a list with one a text, "
            "[Sampler(np.random.default_rng(seed)) for seed in range(8)]",
        ),
        (
            lambda: generate_batch(chances(), stacked(), LOOKUPS, 3, max_new_tokens=1),
            "the prompts are 3: give a list with one a text, [(1, 2), (3,)]",
        ),
        (
            lambda: generate_batch(chances(2), stacked(), LOOKUPS, (1, 2), max_new_tokens=1),
            "the context 1 is not made of tokens: give a tuple of ints",
        ),
        (
            lambda: texts(stacked(), BatchDrafter(lambda wanted: [], VOCAB_SIZE)),
            "the drafter returned a list: return a mapping from slots to drafts",
        ),
        (
            lambda: texts(stacked(), BatchDrafter(lambda wanted: {7: draft.Draft((), ())}, VOCAB_SIZE)),
            "the drafter was asked for slots [0, 1, 2] and drafted for [7]: draft for each, NO_DRAFT where "
            "there is nothing to draft",
        ),
        (
            lambda: texts(stacked(slots=3), chains(stacked(slots=2))),
            "the draft has 2 slots, and slot 2 is asked: give more",
        ),
        (
            lambda: generate_batch(
                chances(2), stacked(), each(lambda slot: draft.model(single())), PROMPTS, max_new_tokens=1
            ),
            "2 chances for 5 prompts: give each text its own",
        ),
        (
            lambda: texts(stacked(), each(lambda slot: draft.model(DRAFT))),
            "the target has 7 tokens and the draft 3: give a draft with the target's vocabulary",
        ),
        (
            lambda: texts(stacked(), chains(Batch((DRAFT,)))),
            "the target has 7 tokens and the draft 3: give a draft with the target's vocabulary",
        ),
        (
            lambda: texts(stacked(), BatchDrafter(dict.fromkeys, VOCAB_SIZE)),
            "the drafter returned None: return a Draft(tokens, probs)",
        ),
        (
            lambda: texts(stacked(), each(lambda slot: draft.model(single())), stop_tokens={9}),
            "stop token 9: give tokens from 0 to 6",
        ),
        (
            lambda: texts(stacked(), each(lambda slot: draft.model(single())), max_new_tokens=-1),
            "max_new_tokens = -1 is too small: give an int of at least 0",
        ),
        (
            lambda: generate_batch(
                chances(1), stacked(), each(lambda slot: draft.model(single())), [(1,) * 24], max_new_tokens=1
            ),
            "a prompt of 24 tokens: the target's limit is 23; shorten it",
        ),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()


@pytest.mark.parametrize("drafter", [LOOKUPS, chains(Batch((DRAFT,)))], ids=["each", "chains"])
def test_of_nothing_wanted_nothing_is_drafted(drafter):
    assert drafter({}) == {}


# The page


def page_tables(name):
    """The tables of a block of the page: for each, by batch, numbers by the name of their column."""
    page = script.PAGE.read_text(encoding="utf-8")
    block = re.search(rf"<!-- {name} -->\n(.*?)<!-- end of {name} -->", page, re.DOTALL)[1]
    for lines in re.findall(r"(?:^\|.*\n)+", block, re.MULTILINE):
        heads, _, *rows = (
            [cell.strip() for cell in line.strip("|\n").split("|")] for line in lines.splitlines()
        )
        yield (
            heads,
            {int(row[0]): [float(cell.split(" ")[0].replace(",", "")) for cell in row] for row in rows},
        )


def test_by_the_page_drafts_bring_more_to_one_text_than_to_many():
    """As measured and as the roofline says: behind each measured column are its predictions."""
    tables = list(page_tables("speedups"))
    of_the_ngram = tables[: len(script.THREADS)]
    assert of_the_ngram
    for heads, rows in tables:
        assert tuple(rows) == script.BATCHES
        measured, roofline = (
            [place for place, head in enumerate(heads) if re.fullmatch(kind, head)]
            for kind in (r"k = \d", "roofline")
        )
        assert len(measured) == len(roofline) == len(script.LENGTHS)
        for place in (*measured, *roofline):
            assert rows[1][place] > rows[64][place]
            least = 1.5 if place in measured else 1
            assert rows[1][place] > least or (heads, rows) not in of_the_ngram


def test_by_the_page_no_pass_is_below_its_floor():
    tables = list(page_tables("passes"))
    assert tables
    for heads, rows in tables:
        for cells in rows.values():
            floors = [place for place, head in enumerate(heads) if head == "floor"]
            assert all(cells[place - 2] > cells[place] for place in floors)


def by_hand(plain, drafted, *, threads=1, loops=0.0):
    """What a process would hand on: decodes of so many seconds, and passes of 1 and 2 texts."""
    way = ("a", 2)
    one_a_round, two_rounds = [[2, 2, 2, 2]], [[2, 1]]
    decodes = {
        size: {
            script.PLAIN: script.Decodes(plain, one_a_round, [seconds], [0.0], [0], [0]),
            way: script.Decodes(drafted, two_rounds, [2 * seconds], [drafting], [3], [4]),
        }
        for size, seconds, drafting in [(1, 1.0, 0.25), (2, 1.5, 0.5)]
    }
    passes = {
        size: {0: script.Passes([seconds], [0.1]), 2: script.Passes([2 * seconds], [0.1])}
        for size, seconds in [(1, 1.0), (2, 1.5)]
    }
    size = script.Model(100, bytes_per_parameter=4, cache_bytes_per_token=0)
    by_texts = {size: {0: size * loops, 2: size * loops} for size in decodes}
    return script.Measured(threads, 400.0, 100.0, size, by_texts, decodes, passes)


def test_the_parts_of_a_round_add_up():
    """Four plain rounds of two texts, and with drafts one of two and one of one."""
    run = by_hand([8.0, 6.0], [2.0, 3.0])
    assert run.speedups(2, ("a", 2)) == [4, 2]
    plain, drafted = 4 * 1.5, (2 * 1.5 + 0.5) + (2 * 1.0 + 0.25)
    assert run.by_parts(2, ("a", 2)) == pytest.approx(plain / drafted)
    with_loop = by_hand([8.0, 6.0], [2.0, 3.0], loops=0.1)
    assert with_loop.by_parts(2, ("a", 2)) == pytest.approx((plain + 8 * 0.1) / (drafted + 3 * 0.1))
    assert run.acceptance("a") == 3 / 4


def test_the_roofline_by_hand():
    """A pass takes 1 s for the weights, or 2 s a position; two drafts take 1/4 s, and of two texts 1/2 s."""
    run = by_hand([8.0, 6.0], [2.0, 3.0])
    tokens = 1 + 3 / 4 + 9 / 16
    assert run.roofline(1, ("a", 2)) == pytest.approx(tokens * 2 / (0.25 + 6))
    assert run.roofline(2, ("a", 2)) == pytest.approx(tokens * 4 / (0.5 + 12))


def test_the_last_batch_that_pays_is_that_before_the_first_that_does_not():
    assert script.last_that_pays({1: 0, 2: 0, 4: 0}, {1: 2, 2: 1, 4: 3}.get) == "1"
    assert script.last_that_pays({1: 0, 2: 0, 4: 0}, {1: 2, 2: 3, 4: 1.5}.get) == "4"
    assert script.last_that_pays({1: 0, 2: 0}, {1: 1, 2: 3}.get) == "none"


@pytest.fixture
def small_bench(monkeypatch):
    llama, _ = llama_of(max_position_embeddings=40)
    monkeypatch.setattr(script, "PROMPT", 4)
    monkeypatch.setattr(script, "NEW_TOKENS", 6)
    monkeypatch.setattr(script, "MIDDLE", 7)
    monkeypatch.setattr(script, "BATCHES", (1, 3))
    rng = np.random.default_rng(0)
    texts = [tuple(rng.integers(VOCAB_SIZE, size=7).tolist()) for _ in range(3)]
    drafters = {
        "a": lambda _: each(lambda _: draft.model(single(**SMALL))),
        "b": lambda slots: chains(stacked(slots=slots, **SMALL)),
    }
    return script.Bench(CachedLlama(llama), script.emptied(llama.config), texts, drafters)


def test_the_script_measures_what_it_predicts_from(small_bench):
    run = script.measure_all(small_bench, 1, 1)
    assert script.of_json(script.to_json(run)) == run
    for batch, ways in run.decodes.items():
        for (_, length), one in ways.items():
            assert len(one.seconds) == len(one.passing) == len(one.drafting) == 3
            assert all(texts[0] == batch for texts in one.texts)
            assert all(sum(texts) == 6 * batch for texts in one.texts) == (length == 0)
            assert (sum(one.judged) > 0) == (length > 0)
        for way in small_bench.ways[1:]:
            assert min(run.by_parts(batch, way), run.roofline(batch, way), *run.speedups(batch, way)) > 0
    assert run.size.parameters == script.weights_read(small_bench.target)
    assert run.size.cache_bytes_per_token == 4 * 2 * 2 * 2 * 4


def test_the_script_writes_the_page(monkeypatch, tmp_path):
    monkeypatch.setattr(script, "LENGTHS", (2,))
    monkeypatch.setattr(script, "PICTURE", tmp_path / "picture.png")
    page = tmp_path / "page.md"
    blocks = "machine", "speedups", "turns", "bias", "passes"
    page.write_text("\n".join(f"<!-- {name} -->\nold\n<!-- end of {name} -->" for name in blocks))
    monkeypatch.setattr(script, "PAGE", page)
    asked = []

    def run(command, *, env, check, stdout):
        threads = int(command[command.index("--measure-with") + 1])
        asked.append((threads, {env[name] for name in script.VARIABLES}, command[-2:], check))
        made = script.to_json(by_hand([8.0, 6.0], [2.0, 3.0], threads=threads))
        return mock.Mock(stdout=made.encode())

    monkeypatch.setattr(script.subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["batch.py", "--repeats", "2"])
    script.main()
    assert asked == [(number, {f"{number}"}, ["--repeats", "2"], True) for number in (1, 2)]
    text = page.read_text(encoding="utf-8")
    assert "old" not in text
    assert (tmp_path / "picture.png").stat().st_size > 10_000
    assert "With 2 threads, products read 0 GB" in text
    assert "a, 1 thread, acceptance 0.75:" in text
    assert "| 2 | 27 | 3.00 (1.50 to 4.50) | 1.04 | 0.74 |" in text
    assert "| a | 2 | 2 | 2 | 2 | none |" in text
    assert "The parts are above what was measured in 0 of 4 cases, by -65 % in the middle." in text
    assert "| 2 | 1500.00 | 100.00 | 4000.00 | 3000.00 | 100.00 | 12000.00 |" in text


def test_the_script_hands_on_what_a_process_measures(monkeypatch, small_bench, capsys):
    monkeypatch.setattr(script, "bench", lambda target, drafters: small_bench)
    monkeypatch.setattr(script, "keep_freed_memory", lambda: None)
    monkeypatch.setattr(script, "measure_all", lambda on, threads, repeats: by_hand([repeats], [1.0]))
    monkeypatch.setattr(sys, "argv", ["batch.py", "--measure-with", "2", "--repeats", "4"])
    script.main()
    assert script.of_json(capsys.readouterr().out) == by_hand([4], [1.0])
