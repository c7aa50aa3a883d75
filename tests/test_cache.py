"""C11: a cached Llama gives the rows an uncached one gives, whatever it was asked before."""

import copy
import pickle
import re
from functools import partial
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plain_llama import llama_of
from speculative import autoregress, from_logits, generate, sample, verify
from speculative.draft import model as chain_of
from speculative.draft import paths, tree
from speculative.model import CachedLlama, Characters
from speculative.model import session as module
from speculative.model.attention import shape_of
from speculative.model.llama import forward
from speculative.model.session import Buffers, Session
from speculative.model.tokens import common
from turns import in_between

VOCAB_SIZE, LIMIT, FIRST = 7, 23, 3

KINDS = (
    "any",
    "extend",
    "shorter",
    "diverge",
    "chain",
    "tree",
    "commit",
    "repeat",
    "limit",
    "states",
    "break",
)
steps = st.tuples(
    st.sampled_from(KINDS),
    st.integers(0, 99),
    st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=9),
    st.lists(st.integers(0, 99), min_size=9, max_size=9),
)


def random_steps(rng, number):
    """The same as lists of `steps`, from a generator."""
    return [
        (
            KINDS[rng.integers(len(KINDS))],
            int(rng.integers(100)),
            rng.integers(VOCAB_SIZE, size=rng.integers(1, 10)).tolist(),
            rng.integers(100, size=9).tolist(),
        )
        for _ in range(number)
    ]


class Conversation:
    """Asks a cached model this and that, and holds every answer against the plain one."""

    def __init__(self, model, plain):
        self.model, self.plain = model, plain
        self.texts, self.drafted = [()], ((), (), ())

    def step(self, kind, number, tokens, numbers):
        """Do one thing with one of the texts asked about before."""
        tokens, text = tuple(tokens), self.texts[number % len(self.texts)]
        ask = {
            "any": lambda: self.ask(tokens),
            "extend": lambda: self.ask((text + tokens)[:LIMIT]),
            "shorter": lambda: self.ask(text[: number % (len(text) + 1)]),
            "diverge": lambda: self.ask((text[: number % (len(text) + 1)] + tokens)[:LIMIT]),
            "chain": lambda: self.ask(text, tokens[: LIMIT - len(text)]),
            "tree": lambda: self.tree(text, tokens, [n % (i + 1) for i, n in enumerate(numbers)]),
            "commit": lambda: self.commit(number, tokens[:1]),
            "repeat": lambda: self.ask(self.texts[-1]),
            "limit": lambda: self.ask((text + tokens + (number % VOCAB_SIZE,) * LIMIT)[:LIMIT]),
            "states": lambda: self.states(text),
            "break": lambda: self.broken(text + tokens, numbers),
        }
        ask[kind]()

    def ask(self, context, tokens=(), parents=None):
        """Compare the rows of a context and of what is drafted behind it."""
        parents = tuple(range(len(tokens))) if parents is None else parents
        self.texts.append(context)
        self.drafted = context, tokens, parents
        rows = self.model.oracle.score_tree(context, tokens, parents)
        ways = [context]
        for token, parent in zip(tokens, parents, strict=True):
            ways.append((*ways[parent], token))
        for row, way in zip(rows, ways, strict=True):
            same_law(row, self.plain.row(way))

    def tree(self, context, tokens, parents):
        """Ask about a tree, of the nodes within the limit."""
        depths, kept = [0], [0]
        for node, parent in enumerate(parents[: len(tokens)], 1):
            depths.append(depths[parent] + 1)
            if parent in kept and len(context) + depths[node] <= LIMIT:
                kept.append(node)
        number = {node: i for i, node in enumerate(kept)}
        self.ask(
            context,
            tuple(tokens[node - 1] for node in kept[1:]),
            tuple(number[parents[node - 1]] for node in kept[1:]),
        )

    def commit(self, number, tokens):
        """Go on with a branch of what was drafted last: to one of its nodes, and a token behind it."""
        context, drafted, parents = self.drafted
        way, node = (), number % (len(drafted) + 1)
        while node:
            way, node = (drafted[node - 1], *way), parents[node - 1]
        self.ask((context + way + tokens)[:LIMIT])

    def states(self, context):
        """Compare the hidden states of a context."""
        np.testing.assert_allclose(self.model.states(context), self.plain.states(context), atol=1e-5)

    def broken(self, context, numbers):
        """Interrupt a pass in one of its layers, before or after that layer's keys are written."""
        context = context[:LIMIT]
        drafted = tuple(n % VOCAB_SIZE for n in numbers[: LIMIT - len(context)])
        with mock.patch.object(module, "forward", interrupted(numbers[0] % 2, numbers[1] % 2)):
            try:
                self.model.oracle.score(context, drafted)
            except KeyboardInterrupt:
                self.texts.append(context + drafted)


def interrupted(at_layer, after):
    def broken_forward(llama, tokens, positions, attend):
        def broken_attend(layer, *qkv):
            if layer == at_layer and not after:
                raise KeyboardInterrupt
            attended = attend(layer, *qkv)
            if layer == at_layer:
                raise KeyboardInterrupt
            return attended

        return forward(llama, tokens, positions, broken_attend)

    return broken_forward


def same_law(row, logits):
    shares = np.exp(logits - logits.max())
    np.testing.assert_allclose(row, shares / shares.sum(), atol=1e-5)


def conversation(sessions=1, seed=0, **sizes):
    llama, plain = llama_of(seed, max_position_embeddings=LIMIT + 1, **sizes)
    return Conversation(CachedLlama(llama, sessions=sessions, context_limit=LIMIT), plain)


@given(st.integers(1, 3), st.sampled_from([1, 2, 4]), st.sampled_from([2, 128]), st.lists(steps, max_size=12))
def test_c11_whatever_is_asked_the_rows_are_those_of_an_uncached_model(sessions, heads, chunk, asked):
    talk = conversation(sessions, num_key_value_heads=heads)
    with mock.patch.object(module, "CHUNK", chunk):
        for step in asked:
            talk.step(*step)
    assert len(talk.model._sessions) <= sessions


@pytest.mark.parametrize("bos", [FIRST, None])
def test_short_contexts(bos):
    llama, plain = llama_of(bos_token_id=bos)
    talk = Conversation(CachedLlama(llama), plain)
    for context in [(2,), (4,), (4, 1), (1,), (FIRST,)]:
        talk.ask(context, (5, 1))
        talk.states(context)
    if bos is not None:
        talk.ask((), (2,))
        talk.states(())
        assert talk.model.states(()).shape == (1, 16)
    same_law(talk.model.oracle((4,)), plain.row((4,)))


def test_states_stay_those_of_their_text():
    talk = conversation()
    talk.ask((1, 2), (5, 6, 4), (0, 0, 1))
    states = talk.model.states([1, 2, 6])
    assert states.shape == (4, 16)
    assert states.dtype == np.float32
    for start in (1, 4, -1):
        assert (talk.model.states_from(start, (1, 2, 6)) == states[start:]).all()
    talk.ask((4, 4, 4))
    np.testing.assert_allclose(states, talk.plain.states((1, 2, 6)), atol=1e-5)


# Threads and copies


@pytest.mark.parametrize(("owner", "name", "after"), [(module, "forward", False), (Session, "read", True)])
@pytest.mark.parametrize("ask", ["row", "states"])
def test_two_threads_take_turns(owner, name, after, ask):
    talk = conversation()
    talk.ask(TEXT)
    texts = (*TEXT, 1), (6,) * 9
    asked = {"row": talk.model.oracle, "states": talk.model.states}[ask]
    given = in_between(owner, name, *(partial(asked, text) for text in texts), after=after)
    for text, made in zip(texts, given, strict=True):
        if ask == "row":
            same_law(made, talk.plain.row(text))
        else:
            np.testing.assert_allclose(made, talk.plain.states(text), atol=1e-5)
        talk.ask((*text, 2))


def pickled(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_has_read_nothing_and_shares_no_buffer(again):
    llama, plain = llama_of()
    model = CachedLlama(
        llama, tokenizer=Characters("abcdefg"), sessions=2, context_limit=LIMIT - 1, sliding=True
    )
    talk = Conversation(model, plain)
    talk.ask(TEXT, (5, 6))
    other = again(model)
    assert other.nbytes == 0
    assert (other.longest, other._most, other._sliding) == (LIMIT - 1, 2, True)
    assert other.tokenizer.vocabulary == "abcdefg"
    assert other.oracle.vocabulary == tuple("abcdefg")
    Conversation(other, plain).ask((6, 6, 6, 6, 6, 6, 6))
    assert other.nbytes
    talk.ask((*TEXT, 5, 1))


@pytest.mark.parametrize("again", [copy.deepcopy, pickled])
def test_an_oracle_can_be_copied(again):
    talk = conversation()
    talk.ask(TEXT, (5, 6))
    other = again(talk.model.oracle)
    same_law(other((6, 6)), talk.plain.row((6, 6)))
    same_law(other.score(TEXT, (5,))[1], talk.plain.row((*TEXT, 5)))
    talk.ask((*TEXT, 5, 1))


# Beyond the limit


@pytest.mark.parametrize(
    ("limit", "starts"),
    [(5, [0] * 6 + [3] * 3 + [6] * 3), (4, [0] * 5 + [2] * 2 + [4] * 2), (1, [0, 0, 1, 2, 3])],
)
def test_where_a_window_begins(limit, starts):
    model = CachedLlama(llama_of()[0], context_limit=limit, sliding=True)
    text = tuple(range(len(starts)))
    assert [model.window(text[:length]) for length in range(len(starts))] == [
        text[start:length] for length, start in enumerate(starts)
    ]
    assert CachedLlama(llama_of()[0], context_limit=limit).window(text) == text


@given(st.integers(1, 6), st.lists(steps, max_size=8))
def test_c11_beyond_the_limit_rows_are_those_of_the_window(limit, asked):
    llama, plain = llama_of()
    model = CachedLlama(llama, sessions=2, context_limit=limit, sliding=True)
    assert model.oracle.context_limit is None
    talk = Conversation(model, mock.Mock(row=lambda context: plain.row(model.window(context))))
    talk.ask((1, 2, 4, 5), (1, 2, 3, 4), (0, 0, 0, 0))  # many nodes, none of them deep
    for kind, number, tokens, numbers in asked:
        talk.step("any" if kind in ("states", "break") else kind, number, tokens, numbers)


# What is computed, and what is not


def rows_computed(model, *asked):
    """How many rows each question takes."""
    rows = []

    def counting(llama, tokens, *rest):
        rows.append(len(tokens))
        return forward(llama, tokens, *rest)

    def count(context, tokens=(), parents=None):
        rows.clear()
        model.oracle.score_tree(context, tokens, range(len(tokens)) if parents is None else parents)
        return sum(rows)

    with mock.patch.object(module, "forward", counting):
        return [count(*each) for each in asked]


TEXT = (1, 2, 4, 5, 6, 0)


@pytest.mark.parametrize(
    ("before", "then", "rows"),
    [
        ((TEXT,), (TEXT,), 0),  # the same once more
        ((TEXT,), ((*TEXT, 1),), 1),
        ((TEXT, (5, 6)), ((*TEXT, 5, 6),), 0),  # all accepted
        ((TEXT, (5, 6)), ((*TEXT, 5, 6, 1), (2, 2)), 3),  # all accepted, and the bonus token
        ((TEXT, (5, 6)), ((*TEXT, 5, 1), (2, 2)), 3),  # one accepted, then the residual
        ((TEXT, (5, 6)), ((*TEXT, 1), (2, 2)), 3),  # rejected at once
        ((TEXT, (5, 6, 4), (0, 0, 2)), ((*TEXT, 6, 4, 1),), 1),  # the second branch
        ((TEXT, (5, 6, 4), (0, 0, 2)), ((*TEXT, 6, 1),), 1),
        ((TEXT, (5, 5, 4), (0, 0, 2)), ((*TEXT, 5, 4),), 0),  # a token drafted twice: its last node
        ((TEXT, (5, 6)), (TEXT, (1,)), 1),
        ((TEXT,), (TEXT[:4], (1,)), 1),  # shorter
        ((TEXT,), ((*TEXT[:4], 3, 3), (1,)), 3),  # another way from the fifth token on
        ((TEXT,), ((6, 6),), 2),  # another text: the model's own first token is kept
    ],
)
def test_c11_a_pass_computes_what_is_new_and_nothing_else(before, then, rows):
    llama, _ = llama_of()
    assert rows_computed(CachedLlama(llama), before, then)[-1] == rows


def test_a_text_goes_on_with_the_session_that_shares_most_with_it():
    llama, _ = llama_of()
    others = (6, 6, 6, 6, 6, 6), (5, 0, 5, 0, 5, 0)
    asked = [(TEXT,), (others[0],), ((*TEXT, 1),), ((*others[0], 1),), (TEXT[:3],), (others[0][:2],)]
    assert rows_computed(CachedLlama(llama, sessions=2), *asked) == [7, 7, 1, 1, 0, 0]
    assert rows_computed(CachedLlama(llama), *asked) == [
        7,
        6,
        7,
        7,
        3,
        2,
    ]  # all but the first token, each time
    # the third text takes the place of the one unused for longest
    asked = [(TEXT,), (others[0],), ((*TEXT, 1),), (others[1],), ((*TEXT, 1, 1),), (others[0],)]
    assert rows_computed(CachedLlama(llama, sessions=2), *asked) == [7, 7, 1, 6, 1, 6]
    # a short text that begins like all others does not take their place
    assert rows_computed(CachedLlama(llama, sessions=2), (TEXT,), ((),), (TEXT,)) == [7, 1, 0]
    # half of a text is enough to go on with its session, less is not: TEXT and the first token are seven
    asked = [(TEXT,), ((*TEXT[:3], 0, 0),), (TEXT,)]
    assert rows_computed(CachedLlama(llama, sessions=2), *asked) == [7, 2, 3]
    asked = [(TEXT,), ((*TEXT[:2], 0, 0),), (TEXT,)]
    assert rows_computed(CachedLlama(llama, sessions=2), *asked) == [7, 5, 0]
    # of two that share as much the last one is taken; but never one that shares less
    asked = [(TEXT,), ((1, 2, 6, 6),), ((1, 2, 6),), ((1, 2),), (TEXT[:5],)]
    assert rows_computed(CachedLlama(llama, sessions=2), *asked) == [7, 5, 0, 0, 0]


def test_c11_a_rejection_writes_nothing():
    talk = conversation()
    talk.ask(TEXT, (5, 6, 1))
    session = talk.model._sessions[0]
    buffers = [*vars(session.buffers).values()]
    for buffer in buffers:
        buffer.flags.writeable = False
    for context in [(*TEXT, 5, 1), (*TEXT, 5), TEXT[:2]]:  # one of three accepted; back; back further
        session.cut_back((FIRST, *context))
        assert len(session.tokens) == 1 + len(context) - (context[-1:] == (1,))
    assert all(now is then for now, then in zip(vars(session.buffers).values(), buffers, strict=True))


def test_c11_of_a_branch_its_own_rows_are_moved_and_no_others():
    talk = conversation()
    talk.ask(TEXT, (5, 6, 1, 4), (0, 0, 2, 3))  # the branch 6, 1, 4 stands one place too far behind
    session = talk.model._sessions[0]
    buffers = [*vars(session.buffers).values()]
    positions = [np.moveaxis(buffer, axis, 0) for buffer, axis in zip(buffers, (3, 2, 0), strict=True)]
    before = [rows.copy() for rows in positions]
    session.cut_back((FIRST, *TEXT, 6, 1))
    end = 1 + len(TEXT)
    for now, then in zip(positions, before, strict=True):
        changed = [i for i in range(end + 4) if (now[i] != then[i]).any()]
        assert changed == [end, end + 1]
        assert (now[end : end + 2] == then[end + 1 : end + 3]).all()
    assert session.tokens == (FIRST, *TEXT, 6, 1)
    assert all(now is then for now, then in zip(vars(session.buffers).values(), buffers, strict=True))


# Texts


def pair():
    """A target and a draft that have nothing in common, cached and not."""
    made = [llama_of(seed, **sizes) for seed, sizes in [(1, {}), (2, {"num_hidden_layers": 1})]]
    cached = [CachedLlama(llama, context_limit=LIMIT).oracle for llama, _ in made]
    return cached, [from_logits(plain.row, VOCAB_SIZE, context_limit=LIMIT) for _, plain in made]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("drafter", "verifier"),
    [
        (chain_of, verify.token),
        (chain_of, verify.block),
        (lambda oracle: tree(oracle, branching=(2, 2, 1)), verify.recursive),
        (lambda oracle: paths(oracle, num_paths=3), verify.traversal),
    ],
    ids=["token", "block", "tree", "paths"],
)
def test_c11_the_same_tokens_with_and_without_the_cache(drafter, verifier, seed):
    texts = [
        sample(
            generate,
            target,
            drafter(draft),
            (1, 4),
            max_new_tokens=99,
            num_draft_tokens=3,
            verify=verifier,
            rng=seed,
        )
        for target, draft in pair()
    ]
    assert texts[0].tokens == texts[1].tokens
    assert texts[0].stop_reason == "context_limit"
    assert len({one.accepted for one in texts[0].rounds}) > 1


def test_plain_decoding_with_and_without_the_cache():
    texts = [sample(autoregress, target, max_new_tokens=99, rng=5) for target, _ in pair()]
    assert texts[0].tokens == texts[1].tokens
    assert len(texts[0].tokens) == LIMIT + 1  # one token more than the longest context


# Memory


def test_memory_is_what_the_docstring_says():
    llama, _ = llama_of()
    model = CachedLlama(llama, sessions=2, context_limit=20)
    assert model.nbytes == 0
    one = (
        4 * (20 + 1 + 64) * (2 * 2 * 2 * 4 + 16)
    )  # positions * (2 * layers * heads * head_dim + hidden_size)
    model.oracle(TEXT)
    assert model.nbytes == one
    for seed in range(300):
        rng = np.random.default_rng(seed)
        model.oracle.score(rng.integers(VOCAB_SIZE, size=rng.integers(17)), rng.integers(VOCAB_SIZE, size=3))
    assert model.nbytes == 2 * one


def test_a_tree_too_large_for_the_room_gets_more():
    talk = conversation()
    text = TEXT * 3
    rng = np.random.default_rng(0)

    def ask(nodes):
        """A tree of that many nodes, of depth two: every node below the root or one of its first children."""
        parents = [0, 0, 0, *rng.integers(4, size=nodes - 3).tolist()]
        talk.ask(text, tuple(rng.integers(VOCAB_SIZE, size=nodes).tolist()), tuple(parents))

    talk.ask(text)
    before = talk.model.nbytes
    fitting = 1 + LIMIT + 64 - (1 + len(text))
    ask(fitting)
    assert talk.model.nbytes == before
    ask(fitting + 3)
    grown = talk.model.nbytes
    assert grown == before * (1 + LIMIT + 64 + 3) // (1 + LIMIT + 64)
    talk.commit(3, (1,))
    talk.states(text)
    ask(fitting + 3)
    assert talk.model.nbytes == grown


# The shape of a pass


def test_places_and_sights_by_hand():
    places, mask = shape_of(2, (0, 0, 1, 3))
    assert places.tolist() == [0, 1, 2, 2, 3, 4]
    assert mask.dtype == np.float32
    assert mask.shape == (6, 1, 6)
    assert np.where(mask[:, 0] == 0, 1, 0).tolist() == [
        [1, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [1, 1, 0, 1, 0, 0],
        [1, 1, 1, 0, 1, 0],
        [1, 1, 1, 0, 1, 1],
    ]
    assert set(mask.ravel()) == {0, -np.inf}
    assert shape_of(1, ())[1] is None
    assert shape_of(0, (0,))[0].tolist() == [0]
    places, mask = shape_of(0, (0, 1, 0))  # the context was read before
    assert places.tolist() == [0, 1, 0]
    assert np.where(mask[:, 0] == 0, 1, 0).tolist() == [[1, 0, 0], [1, 1, 0], [0, 0, 1]]


# Interruptions


class Breaking(np.ndarray):
    """A buffer that is interrupted when it is written to."""

    def __setitem__(self, key, value):
        raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["keys", "values", "hidden"])
def test_a_branch_whose_move_is_interrupted_is_read_again(name):
    talk = conversation()
    talk.ask(TEXT, (5, 6, 1), (0, 0, 2))
    buffers = talk.model._sessions[0].buffers
    whole = getattr(buffers, name)
    setattr(buffers, name, whole.view(Breaking))
    with pytest.raises(KeyboardInterrupt):
        talk.model.oracle((*TEXT, 6, 1))
    setattr(buffers, name, whole)
    talk.ask((*TEXT, 5, 1))  # behind the node whose rows were written over
    talk.ask((*TEXT, 6, 1))


def test_a_model_whose_first_pass_is_interrupted_starts_again():
    talk = conversation(sessions=2)
    talk.broken(TEXT, [0, 0])
    talk.broken((1,), [1, 1])
    talk.ask(TEXT)
    talk.ask((1,))


# Faults that must be seen


def of_shape(function):
    def changed(tokens, parents):
        places, mask = shape_of(tokens, parents)
        return (places, mask) if mask is None else function(tokens, parents, places.copy(), mask.copy())

    return mock.patch.object(module, "shape_of", changed)


def without_moving(*names):
    move = Buffers.move

    def faulty(self, rows, start):
        before = {name: getattr(self, name).copy() for name in names}
        move(self, rows, start)
        for name in names:
            getattr(self, name)[:] = before[name]

    return mock.patch.object(Buffers, "move", faulty)


def shared_buffers(name):
    make, known = Buffers.__init__, {}

    def faulty(self, config, positions):
        make(self, config, positions)
        setattr(self, name, known.setdefault(id(config), getattr(self, name)))

    return mock.patch.object(Buffers, "__init__", faulty)


def one_more(first, second):
    return min(common(first, second) + 1, len(first), len(second))


def any_text(self, sequence):
    return len(self.tokens) <= len(sequence)


def branch_as_chain():
    """The nodes of a branch are taken to stand first."""
    return mock.patch.object(Buffers, "move", return_value=None)


def one_node_too_many():
    """Behind an accepted node the next one counts as accepted too."""
    cut_back = Session.cut_back

    def faulty(self, sequence):
        nodes, length = len(self.nodes), len(self.tokens)
        cut_back(self, sequence)
        if len(self.tokens) < length + nodes:
            self.tokens = sequence[: len(self.tokens) + 1]

    return mock.patch.object(Session, "cut_back", faulty)


def tokens_too_soon():
    """Tokens count as read before they are."""
    compute = Session._compute

    def faulty(self, start, tokens, nodes, parents):
        self.tokens = self.tokens[:start] + tokens
        compute(self, start, tokens, nodes, parents)

    return mock.patch.object(Session, "_compute", faulty)


def siblings_seen(tokens, parents, places, mask):
    return places, np.where(np.tri(len(mask), dtype=bool)[:, None], 0, -np.inf).astype(np.float32)


def ancestors_hidden(tokens, parents, places, mask):
    mask[tokens:, :, tokens:] = np.where(np.eye(len(parents), dtype=bool)[:, None], 0, -np.inf)
    return places, mask


def without_depth(tokens, parents, places, mask):
    return np.arange(len(mask)), mask


def one_too_deep(tokens, parents, places, mask):
    places[tokens:] += 1
    return np.minimum(places, LIMIT), mask


FAULTS = {
    "a stale row after a rejection": lambda: mock.patch.object(module, "common", one_more),
    "another text taken for this one": lambda: mock.patch.object(Session, "continues", any_text),
    "sessions that share their keys": lambda: shared_buffers("keys"),
    "sessions that share their values": lambda: shared_buffers("values"),
    "sessions that share their states": lambda: shared_buffers("hidden"),
    "keys of a branch not moved": lambda: without_moving("keys"),
    "values of a branch not moved": lambda: without_moving("values"),
    "states of a branch not moved": lambda: without_moving("hidden"),
    "a branch not moved": branch_as_chain,
    "a node too many": one_node_too_many,
    "tokens that count before they are read": tokens_too_soon,
    "siblings that see one another": lambda: of_shape(siblings_seen),
    "nodes that don't see their parents": lambda: of_shape(ancestors_hidden),
    "places of nodes by number, not by depth": lambda: of_shape(without_depth),
    "nodes one place too far": lambda: of_shape(one_too_deep),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # memory that nothing was written to
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
def test_faults_are_seen(fault):
    with fault(), pytest.raises((AssertionError, ValueError)):  # other rows, or NaN
        run(range(20))


def test_without_a_fault_nothing_is_seen():
    run(range(20))


def run(seeds):
    for seed in seeds:
        talk = conversation(2)
        for step in random_steps(np.random.default_rng(seed), 20):
            talk.step(*step)


# Errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sessions": 0}, "sessions = 0 is too small: give an int of at least 1"),
        ({"sessions": 1.5}, "sessions = 1.5 is not a whole number: give an int of at least 1"),
        ({"context_limit": 0}, "context_limit = 0 is too small: give an int of at least 1"),
        (
            {"context_limit": 24},
            "context_limit is 24: the model has positions for contexts of 23 tokens at most",
        ),
        ({"tokenizer": Characters("ab")}, "vocabulary has 2 strings for 7 tokens: give as many"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        CachedLlama(llama_of()[0], **options)


def test_limits_with_and_without_a_first_token():
    for bos, longest in [(FIRST, 23), (None, 24)]:
        llama, plain = llama_of(bos_token_id=bos)
        oracle = CachedLlama(llama).oracle
        assert oracle.context_limit == longest
        same_law(oracle((1,) * longest), plain.row((1,) * longest))
        with pytest.raises(
            ValueError, match=f"^a context of {longest + 1} tokens is over the limit of {longest}: "
        ):
            oracle((1,) * (longest + 1))
        with pytest.raises(
            ValueError, match=f"^a context of {longest + 1} tokens is over the limit of {longest}: "
        ):
            oracle.score((1,) * longest, (2,))
    assert CachedLlama(llama, context_limit=9).oracle.context_limit == 9


@pytest.mark.parametrize(
    ("sliding", "context", "message"),
    [
        (False, (1, 7), "token 7 in context (1, 7) is outside the vocabulary: give tokens from 0 to 6"),
        (True, (-1,), "token -1 in context (-1,) is outside the vocabulary: give tokens from 0 to 6"),
        (True, 5, "the context 5 is not made of tokens: give a tuple of ints"),
        (
            False,
            (1,) * 24,
            "a context of 24 tokens is over the limit of 23: give a shorter context, or draft fewer tokens",
        ),
        (True, (1,) * 24, "a context of 24 tokens is over the limit of 23: give window(context)"),
    ],
)
def test_contexts_whose_states_are_refused(sliding, context, message):
    model = CachedLlama(llama_of()[0], sliding=sliding)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        model.states(context)


def test_an_empty_context_without_a_first_token():
    model = CachedLlama(llama_of(bos_token_id=None)[0])
    assert model.states(()).shape == (0, 16)
    message = "an empty context, and this model has no first token (bos_token_id): give one token or more"
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        model.oracle(())


def test_tokens_have_their_names():
    model = CachedLlama(llama_of()[0], tokenizer=Characters("gfedcba"))
    assert model.tokenizer.vocabulary == "gfedcba"
    assert model.oracle.vocabulary == tuple("gfedcba")
