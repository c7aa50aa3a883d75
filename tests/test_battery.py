from fractions import Fraction
from functools import partial

import pytest

from speculative import BATTERY, Draft, Instance, residual, verify
from speculative.battery import proofs, random_instance
from speculative.draft import model, paths
from speculative.verify import lift, recursive_plan


def test_the_code_of_an_instance_makes_it_again(capsys):
    for instance in BATTERY:
        exec(instance.code("verify.match"), {})
        assert capsys.readouterr().out == f"{instance.prove(verify.match)!r}\n"


def test_instances_are_hard_in_the_ways_promised():
    assert all(instance.target.vocab_size >= 3 for instance in BATTERY)
    assert {instance.num_draft_tokens for instance in BATTERY} == {0, 1, 2, 3, 5}
    assert any(instance.rounds > 1 for instance in BATTERY)
    assert any(len(instance.target_laws) > 1 for instance in BATTERY)
    cells = [
        len(instance.target(())) ** (instance.rounds * (instance.num_draft_tokens + 1))
        for instance in BATTERY
    ]
    assert cells[0] == min(cells)


def test_random_instances_are_reproducible_and_differ():
    assert random_instance(1, 3, 2) == random_instance(1, 3, 2)
    assert random_instance(1, 3, 2) != random_instance(2, 3, 2)
    instance = random_instance(5, 3, 2)
    assert len(instance.target_laws) == 1 + 3 + 9
    assert instance.target_laws != instance.draft_laws


def test_progress_is_asked_for_by_instance():
    seen = []

    def progress(instance):
        return lambda covered, count: seen.append((instance.name, covered, count))

    instance = random_instance(1, 4, 4)
    [(proved, proof)] = proofs(verify.token, instances=[instance], progress=progress)
    assert proved is instance
    assert proof.lossless
    assert {name for name, _, _ in seen} == {instance.name}
    assert [count for _, _, count in seen] == sorted({count for _, _, count in seen})
    assert all(0 < covered <= 1 for _, covered, _ in seen)


def test_a_drafter_that_drops_what_it_drew_is_reported():
    def dropping(oracle):
        def propose(chance, context, num_draft_tokens):
            drawn = model(oracle)(chance, context, num_draft_tokens)
            poor = [
                oracle((*context, *drawn.tokens[:i]))[token] < Fraction(1, 4)
                for i, token in enumerate(drawn.tokens)
            ]
            kept = poor.index(True) if True in poor else len(poor)
            return Draft(drawn.tokens[:kept], drawn.probs[:kept])

        return propose

    instance = BATTERY[1]
    assert instance.name == "four tokens, disjoint in part"
    assert instance.prove(verify.token).lossless
    assert instance.prove(verify.token, make_drafter=dropping).distance == Fraction(1, 12)
    assert any(not proof.lossless for _, proof in proofs(verify.token, make_drafter=dropping))


def test_a_table_that_is_no_law_is_refused():
    with pytest.raises(ValueError, match="sums to 3/2"):
        Instance("wrong", {(): "1/2 1/2 1/2"}, {(): "1 0 0"}, 1).prove(verify.token)


def test_rows_are_read_as_fractions():
    assert BATTERY[1].target(()).tolist() == [Fraction(1, 10), Fraction(6, 10), Fraction(3, 10), 0]


@pytest.mark.parametrize(
    "accept",
    [
        lambda q, p: q / max(p, Fraction(1, 50)),  # a denominator kept away from zero
        lambda q, p: 0 if p < Fraction(1, 1000) else q / p,
        lambda q, p: 1 if Fraction(999, 1000) < p < 1 else q / p,
    ],
)
def test_rules_that_are_wrong_only_at_small_or_peaked_probabilities_are_seen(accept):
    def rule(chance, draft, target_probs):
        for i, (token, row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
            if not chance.flip(min(1, accept(target_probs[i][token], row[token]))):
                return (*draft.tokens[:i], chance.pick(residual(target_probs[i], row)))
        return (*draft.tokens, chance.pick(target_probs[len(draft)]))

    small = [instance for instance in BATTERY if instance.num_draft_tokens < 3]
    assert any(proof.distance for _, proof in proofs(rule, instances=small))


def test_a_lifted_plan_that_is_wrong_only_for_small_weights_is_seen():
    def forgets(siblings, target):
        weight = target.sum()
        yield from recursive_plan(siblings, target / weight if 0 < weight < Fraction(1, 10) else target)

    (instance,) = [one for one in BATTERY if one.name == "a first draft that is mostly refused"]
    two_paths = partial(paths, num_paths=2)
    assert instance.prove(lift(recursive_plan), make_drafter=two_paths).lossless
    assert instance.prove(lift(forgets), make_drafter=two_paths).distance == Fraction(19, 40)
