"""The script that measures verifiers, and its page."""

import re
import sys
from functools import partial
from pathlib import Path

import pytest

from speculative.draft import hub, model, paths, tree
from speculative.verify import VERIFIERS, Verifier

sys.path.insert(0, str(Path(__file__).parent.parent / "docs"))
import speed  # the script that measures

PAGE = speed.PAGE.read_text(encoding="utf-8")


def rows(name):
    text = re.search(rf"<!-- {name} -->\n(.*?)<!-- end of {name} -->", PAGE, re.DOTALL)[1]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.strip().splitlines()]
    return {line[0].strip("`"): line[1:] for line in cells[2:]}


def test_each_verifier_of_the_page_exists_and_is_in_the_table_of_its_drafts():
    chains, trees = rows("chains"), rows("trees")
    assert all(not speed.is_of_trees(VERIFIERS[name]) for name in chains)
    assert all(speed.is_of_trees(VERIFIERS[name]) for name in trees)
    assert {"token", "block"} <= chains.keys()
    assert {"recursive", "traversal"} <= trees.keys()
    assert rows("proofs").keys() == speed.PROVED.keys()


def test_the_loops_of_the_page_add_up_and_keep_the_bound_beside_models_that_give_laws():
    assert rows("loops").keys() == {case.strip("`") for case in speed.LOOPS}
    for name, cells in rows("loops").items():
        tokens, *parts, together = map(float, cells)
        assert 1 <= tokens < 7
        assert sum(parts) == pytest.approx(together, abs=0.2)
        assert together < (45 if "logits" in name or "temperature" in name else 15)


@pytest.mark.parametrize("case", speed.LOOPS)
def test_a_decode_is_timed_by_part(case, monkeypatch):
    monkeypatch.setattr(speed, "LOOP_SPEND", 0)
    took = speed.loop_time(case)
    assert took.tokens == 4 * len(speed.PROMPTS) * speed.NEW_TOKENS
    assert took.seconds == pytest.approx(sum(took[:3]))
    assert took.rest > 0
    if speed.LOOPS[case][0] is None:
        assert took.tokens == took.rounds
    else:
        assert min(took[:3]) > 0
        assert took.rounds < took.tokens / 2.5  # acceptance near .8


@pytest.mark.parametrize("name", ["chains", "trees"])
def test_a_time_is_its_multiple_of_tokens_time(name):
    """Both were measured in one run, token's time once more before each: within a factor of 2."""
    once = [float(cell.split(" ")[0]) for cell in rows("chains")["token"]]
    for cells in rows(name).values():
        for column, cell in enumerate(cells):
            if cell != "refused":
                microseconds, multiple = (
                    float(number.replace(",", "")) for number in cell.strip(")").split(" (")
                )
                expected = microseconds / once[column * len(once) // len(cells)]
                assert expected / 2 - 0.2 <= multiple <= 2 * expected + 0.2


def test_the_walk_does_not_pay_for_the_tree():
    multiples = [float(cell.split("(")[1].strip(")")) for cell in rows("trees")["recursive"]]
    assert multiples[3] < 2 * multiples[2]


def entry(make_drafter):
    return Verifier(VERIFIERS["recursive"].function, "a paper", True, "tree", make_drafter)


def test_a_new_verifier_is_measured_on_its_own_kind_of_draft(monkeypatch):
    kinds = {
        "chain": (model, 4),
        "of paths": (partial(paths, num_paths=2), 16),
        "with a trunk": (partial(paths, num_paths=3, trunk=2), 2 + 4 * 2),
        "of pairs": (partial(tree, branching=(2, 2), scheme=hub), 2 + 4 + 8),
        "of one shape": (partial(tree, branching=(3, 1)), 6),
    }
    monkeypatch.setattr(speed, "SPEND", 0)
    for name, (make, nodes) in kinds.items():
        monkeypatch.setitem(VERIFIERS, name, entry(make))
        (one,) = speed.drafted(name, 500, 16, rounds=1)
        assert len(one.draft) == pytest.approx(nodes, abs=3), name
        assert len(one.target_probs) == len(one.draft) + 1
        assert re.fullmatch(r"[\d,]+ \([\d.,]+\)", speed.cell(name, 500, 16))
    speed.drafted.cache_clear()


def test_one_that_refuses_its_drafts_is_said_to(monkeypatch):
    def refuse(chance, draft, target_probs):
        raise ValueError("too many tokens")

    monkeypatch.setitem(VERIFIERS, "picky", Verifier(refuse, "a paper", True, "tokens"))
    assert speed.cell("picky", 32, 4) == "refused"


def test_the_same_uniforms_each_time_and_rows_that_are_new():
    chance = [speed.Uniforms(seed) for seed in (0, 0, 1)]
    first = [uniforms.random() for uniforms in chance]
    assert first[0] == first[1] != first[2]
    (one,) = speed.drafted("transport", 32, 16, rounds=1)
    assert speed.seconds("transport", one, 0) > 0
    speed.forget()
    assert all(cached.cache_info().currsize == 0 for cached in speed._caches())
    assert len(speed._caches()) >= 2


def test_proofs_are_timed_by_path(monkeypatch):
    monkeypatch.setattr(speed, "PROVED", {"a chain": ("token", model, 1)})
    enumerate_round, count = speed.proved("a chain")
    assert sum(enumerate_round().values()) == 1
    assert 3 < count < 30
    assert speed.of_proofs().splitlines()[2].startswith(f"| a chain | 1 | {count} | ")


def test_a_table_is_replaced_and_the_rest_stays():
    page = "a\n<!-- chains -->\nold\n<!-- end of chains -->\nb"
    assert speed.with_table(page, "chains", "new") == "a\n<!-- chains -->\n\nnew\n\n<!-- end of chains -->\nb"
