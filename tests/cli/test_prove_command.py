import ast
import json
import re
import subprocess
import sys
from fractions import Fraction
from functools import partial

import numpy as np
import pytest

from speculative import cli, draft, prove
from speculative.battery import BATTERY, Instance
from speculative.cli.candidate import Candidate, Reads, candidate, reads
from speculative.cli.own import OwnCodeError, as_found
from speculative.cli.prove import MOST_DRAFTS, OVERVIEW, drafts_in, fitting, ways_to_draft
from speculative.cli.reason import reason
from speculative.draft import Draft, Drafter, model, paths
from speculative.verify import VERIFIERS, Verdict, Verifier, token

OVERLAPPING = Instance("overlapping", {(): ".10 .60 .30 0"}, {(): ".50 .20 .10 .20"}, 1)
OWN = """
import numpy as np
from speculative import Verdict

def right(chance, draft, target_probs):
    for i, (drafted, p) in enumerate(zip(draft.tokens, draft.probs)):
        q = target_probs[i]
        if not chance.flip(min(1, q[drafted] / p[drafted])):
            rest = [max(0, a - b) for a, b in zip(q, p)]
            return Verdict((*draft.tokens[:i], chance.pick(rest)), i)
    return Verdict((*draft.tokens, chance.pick(target_probs[-1])), len(draft))

def rounded(chance, draft, target_probs):
    return right(chance, draft, [row.astype(float) for row in target_probs])

def from_target(chance, draft, target_probs):
    for i, (drafted, p) in enumerate(zip(draft.tokens, draft.probs)):
        q = target_probs[i]
        if not chance.flip(min(1, q[drafted] / p[drafted])):
            return [*draft.tokens[:i], chance.pick(q)]
    return [*draft.tokens, chance.pick(target_probs[-1])]

def numpy_code(rng, draft, target_probs):
    assert isinstance(rng, np.random.Generator)
    assert target_probs.dtype == np.float64
    assert draft.probs.dtype == np.float64
    size = target_probs.shape[1]
    assert draft.probs.shape == (len(draft.tokens), size)
    for i, drafted in enumerate(draft.tokens):
        p, q = draft.probs[i], target_probs[i]
        if rng.random() >= q[drafted] / p[drafted]:
            rest = np.maximum(q - p, 0)
            return [*draft.tokens[:i], rng.choice(size, p=rest / rest.sum())]
    return [*draft.tokens, rng.choice(size, p=target_probs[-1])]

def coarse(stream: np.random.Generator, draft, target_probs):
    return [int(np.searchsorted(np.cumsum(target_probs[0]), stream.random(dtype=np.float32), side="right"))]

def wrong_numpy_code(rng, draft, target_probs):
    for i, drafted in enumerate(draft.tokens):
        if rng.random() >= target_probs[i][drafted] / draft.probs[i][drafted]:
            return [*draft.tokens[:i], rng.choice(target_probs.shape[1], p=target_probs[i])]
    return [*draft.tokens, rng.choice(target_probs.shape[1], p=target_probs[-1])]

def argmax(chance, draft, target_probs):
    for i, drafted in enumerate(draft.tokens):
        if drafted != target_probs[i].argmax():
            return [*draft.tokens[:i], int(target_probs[i].argmax())]
    return [*draft.tokens, int(target_probs[-1].argmax())]
"""


@pytest.fixture
def own(write):
    file = write("own.py", OWN)
    return lambda name: f"{file}:{name}"


def test_every_verifier_on_small_instances(run, monkeypatch):
    """One draft deep, or two with rows that leave few ways: the rest is for tests of the laws."""
    small = tuple(one for one in OVERVIEW if one.num_draft_tokens < 2 or one.name == "one-hot rows")
    monkeypatch.setattr("speculative.cli.prove.OVERVIEW", small)
    result = run("prove", "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    found = {one["verifier"]: one for one in json.loads(result.stdout)}
    assert list(found) == list(VERIFIERS)
    for name, one in found.items():
        assert one["exact"]
        assert one["lossless"] == one["claimed_lossless"] == VERIFIERS[name].lossless
        assert (Fraction(one["distance"]) == 0) == VERIFIERS[name].lossless
        assert one["failure"] is None
        assert one["code"] is None
        assert [instance["name"] for instance in one["instances"]] == [one.name for one in small]
    assert 0 < found["token"]["float64_distance"] < 20 * 2**-53
    assert found["greedy"]["float64_distance"] == 0
    assert found["typical"]["float64_distance"] is None
    assert Fraction(found["lenient"]["distance"]) == max(
        instance.prove(VERIFIERS["lenient"].function).distance for instance in small
    )
    expected = [float(instance.prove(token).tokens_per_target_pass) for instance in small]
    assert found["token"]["tokens_per_target_pass"] == pytest.approx(np.mean(expected))


def test_a_named_verifier_is_proved_on_all_that_fit_it(run, monkeypatch):
    def names(*arguments):
        (found,) = json.loads(run("prove", *arguments, "--json").stdout)
        return [instance["name"] for instance in found["instances"]]

    assert names("greedy") == [one.name for one in BATTERY]
    monkeypatch.setattr("speculative.cli.prove.MOST_DRAFTS", 16)
    few = names("recursive")
    assert few == [one.name for one in BATTERY if one.target.vocab_size**2 <= 16 and one.num_draft_tokens < 2]
    assert len(names("recursive", "--paths", "1")) > len(few)  # 3 tokens, 2 drafts: 9 ways instead of 81


def test_ways_to_draft():
    """Three tokens, two drafts: 2 paths draw 2 + 2 times, 3 paths 3 + 3 times; a chain is not counted."""
    instance = next(one for one in BATTERY if one.name == "equal laws")
    assert ways_to_draft(instance, partial(paths, num_paths=2)) == 3**4
    assert ways_to_draft(instance, partial(paths, num_paths=3)) == 3**6
    assert ways_to_draft(BATTERY[0], partial(paths, num_paths=3)) == 1
    assert ways_to_draft(instance, model) == 1
    assert fitting(model) == BATTERY
    chosen = fitting(partial(paths, num_paths=2))
    assert 10 < len(chosen) < len(BATTERY)
    assert max(ways_to_draft(one, partial(paths, num_paths=2)) for one in chosen) <= MOST_DRAFTS


def test_the_overview_says_that_it_is_one(run, monkeypatch):
    few = {name: VERIFIERS[name] for name in ("token", "greedy")}
    monkeypatch.setattr("speculative.cli.prove.VERIFIERS", few)
    shown = " ".join(run("prove").stdout.split())
    assert f"{len(OVERVIEW)} instances. On each the law of the tokens of a round, continued" in shown
    assert "name a verifier to prove it on all that fit it" in shown
    named = " ".join(run("prove", "token", "greedy").stdout.split())
    assert f"{len(BATTERY)} instances. On each the law of the tokens of one or two rounds, continued" in named
    assert "For an overview" not in named


def test_the_table_of_some_verifiers(run):
    result = run("prove", "token", "greedy", "lenient")
    assert result.exit_code == 0
    rows = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    assert "match" not in rows
    assert "lossless" in rows["token"]
    assert "x 2^-53" in rows["token"]
    assert "lossy" in rows["lenient"]
    assert "greedy reproduces the target at temperature(0)." in " ".join(result.stdout.split())
    assert "In float64" in result.stdout


@pytest.mark.parametrize("name", ["right", "numpy_code", "rounded"])
def test_lossless_verifiers_of_the_users_own(run, own, name):
    result = run("prove", "--verifier", own(name))
    assert result.exit_code == 0, result.output
    found = json.loads(run("prove", "--verifier", own(name), "--json").stdout)
    assert len(found) == 1
    assert found[0]["lossless"]
    if name == "right":
        assert found[0]["distance"] == "0"
        assert found[0]["tolerance"] == 0
        assert "but for rounding" not in result.stdout
    else:
        assert 0 < found[0]["distance_as_float"] < 20 * 2**-53
        assert found[0]["tolerance"] == 2**-40
        assert "lossless but for rounding" in result.stdout
    assert "In float64" not in result.stdout
    computed = "in fractions" if name == "right" else f"as the code of {own(name)} computes it"
    assert f"over every path, {computed}, and compared" in " ".join(result.stdout.split())


def test_a_verifier_beside_those_of_the_table(run, own):
    found = json.loads(run("prove", "token", "--verifier", own("right"), "--json").stdout)
    assert [one["verifier"] for one in found] == ["token", own("right")]
    assert found[0]["tokens_per_target_pass"] == found[1]["tokens_per_target_pass"]


@pytest.mark.usefixtures("small_battery")
def test_what_of_a_table_is_computed_in_floats(run, own):
    exact = run("prove", "greedy", "--verifier", own("right")).stdout
    assert "over every path, in fractions, and compared" in " ".join(exact.split())
    floats = " ".join(run("prove", "greedy", "--verifier", own("numpy_code")).stdout.split())
    assert f"over every path, in fractions except where {own('numpy_code')} computes in floats" in floats


def test_a_wrong_verifier_exits_1_with_its_simplest_instance_and_the_way_it_fails(run, own):
    """C14: the target instead of the residual, on the first instance of the battery, by hand.

    Of the draft .50 .05 .25 .20 and the target .10 .60 .30 0 the smaller is accepted, .10 .05 .25 0 in all
    .40. The rest, .60, is drawn from the target again: token 2 comes with .25 + .60 * .30 = .43.
    """
    result = run("prove", "--verifier", own("from_target"))
    assert result.exit_code == 1
    assert result.stderr == ""
    shown = " ".join(result.stdout.split())
    assert "NOT LOSSLESS" in shown
    assert f"{own('from_target')} is not lossless on chains of up to 5 drafts: it fails on " in shown
    assert f" of {len(BATTERY)} instances." in shown
    assert "The simplest is 'four tokens, disjoint in part': the law of its first 2 tokens is 19/100" in shown
    assert "Most over-produced: (2, 1), with probability 129/500 = 0.258 where the target has 9/50" in shown
    assert (
        "Likeliest way there: the draft is 2 (probability 1/4 = 0.25); a flip says yes (probability 1); "
        "a pick gives 1 (probability 3/5 = 0.6). That is: draft 2 accepted, bonus 1 drawn." in shown
    )
    assert "Already (2,) comes first with 43/100 = 0.43 where the target has 3/10 = 0.3:" in shown
    assert "1/4 = 0.25 draft 2 accepted 3/25 = 0.12 draft 0 rejected and 2 drawn 3/50 = 0.06 draft 3" in shown


def test_the_code_can_be_pasted(run, own):
    result = run("prove", "--verifier", own("from_target"), "--json")
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)
    assert "is not lossless" in found["failure"]
    pasted = subprocess.run(
        [sys.executable, "-c", found["code"]], capture_output=True, text=True, check=True, timeout=60
    )
    assert pasted.stdout.startswith("Proof(distance 19/100 = 0.19 over 2 tokens, exact")
    assert found["code"] in run("prove", "--verifier", own("from_target")).stdout


@pytest.mark.usefixtures("small_battery")
@pytest.mark.parametrize("module", ["own", "token", "not-a-name"])
@pytest.mark.parametrize("name", ["from_target", "wrong_numpy_code"])
def test_the_code_needs_the_public_library_and_nothing_unused(run, write, module, name):
    where = f"{write(f'{module}.py', OWN)}:{name}"
    (found,) = json.loads(run("prove", "--verifier", where, "--greedy", "--json").stdout)
    imported = [
        f"{getattr(node, 'module', '')}.{alias.name}"
        for node in ast.walk(ast.parse(found["code"]))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    ]
    expected = ["speculative.Instance", "speculative.temperature"]
    expected += ["speculative.verify.from_numpy"] * (name == "wrong_numpy_code")
    expected += [".sys", f"own.{name}"] if module == "own" else [".runpy"]
    assert sorted(imported) == sorted(expected)
    for one in imported:
        assert len(re.findall(rf"\b{one.rpartition('.')[2]}\b", found["code"])) > 1
    done = subprocess.run(
        [sys.executable, "-c", found["code"]], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.startswith("Proof(distance ")
    assert done.stderr == ""


@pytest.mark.usefixtures("small_battery")
def test_the_code_for_a_module_on_the_path(run, write, monkeypatch):
    monkeypatch.chdir(write("kernels_of_mine.py", OWN).parent)
    (found,) = json.loads(run("prove", "--verifier", "kernels_of_mine:from_target", "--json").stdout)
    assert found["code"].startswith(
        "from speculative import Instance\nfrom kernels_of_mine import from_target\n\ninstance = Instance("
    )


@pytest.mark.usefixtures("small_battery")
def test_a_certain_flip_of_numpy_code_is_told_by_what_it_did(run, own):
    """A comparison that can go one way only is no question, so it is not among the answers."""
    shown = " ".join(run("prove", "--verifier", own("wrong_numpy_code")).stdout.split())
    assert (
        "Likeliest way there: the draft is 2 (probability 1/4 = 0.25); a pick gives 1 (probability 0.6). "
        "That is: draft 2 accepted, bonus 1 drawn."
    ) in shown


@pytest.mark.usefixtures("small_battery")
def test_a_long_path_is_shown_in_one_piece_and_not_in_the_table(run, tmp_path, monkeypatch):
    folder = tmp_path / ("a" * 60) / ("b" * 60)
    folder.mkdir(parents=True)
    (folder / "own.py").write_text(OWN)
    monkeypatch.setenv("COLUMNS", "80")
    shown = run("prove", "--verifier", f"{folder}/own.py:from_target").stdout
    assert "\n  own.py:from_target   NOT LOSSLESS" in shown
    assert f"{folder}/own.py:from_target is" in shown.replace("\n", " ")
    assert f"sys.path.insert(0, '{folder}')\n" in shown


@pytest.mark.usefixtures("small_battery")
def test_a_lossy_verifier_of_the_users_own(run, own):
    result = run("prove", "--verifier", own("from_target"), "--lossy")
    assert result.exit_code == 0
    assert "lossy" in result.stdout
    assert "NOT LOSSLESS" not in result.stdout
    assert "paste" not in result.stdout


def test_a_greedy_verifier_of_the_users_own(run, own):
    assert run("prove", "--verifier", own("argmax"), "--greedy").exit_code == 0
    result = run("prove", "--verifier", own("argmax"))
    assert result.exit_code == 1
    wrong = run("prove", "--verifier", own("from_target"), "--greedy", "--json")
    assert wrong.exit_code == 1
    (found,) = json.loads(wrong.stdout)
    assert "warp=temperature(0)" in found["code"]
    exec(compile(found["code"], "pasted", "exec"), {})


@pytest.mark.usefixtures("small_battery")
def test_code_in_float32_needs_a_tolerance(run, own):
    assert run("prove", "--verifier", own("coarse")).exit_code == 1
    assert run("prove", "--verifier", own("coarse"), "--tolerance", "1e-6").exit_code == 0
    assert run("prove", "--verifier", own("from_target"), "--tolerance", "1e-6").exit_code == 1


def test_a_fault_planted_in_the_table_is_found(run, monkeypatch):
    def upside_down(chance, draft, target_probs):
        """C13: the ratio the wrong way round."""
        for i, (drafted, row) in enumerate(zip(draft.tokens, draft.probs, strict=True)):
            if not chance.flip(min(1, row[drafted] / max(target_probs[i][drafted], Fraction(1, 9)))):
                return [*draft.tokens[:i], chance.pick(target_probs[i])]
        return [*draft.tokens, chance.pick(target_probs[-1])]

    planted = Verifier(upside_down, "nowhere", lossless=True, drafts="tokens and laws")
    monkeypatch.setitem(VERIFIERS, "token", planted)
    result = run("prove", "token", "--json")
    assert result.exit_code == 1
    (found,) = json.loads(result.stdout)
    assert not found["lossless"]
    assert found["claimed_lossless"]
    assert found["code"].startswith("from speculative import VERIFIERS, Instance\n\ninstance = Instance(")
    assert "print(instance.prove(VERIFIERS['token'].function))" in found["code"]
    exec(compile(found["code"], "pasted", "exec"), {})


@pytest.mark.usefixtures("small_battery")
def test_what_own_code_prints_stays_out_of_the_json(run, write):
    source = "print('loaded')\ndef verify(chance, draft, target_probs):\n"
    source += "    print('called')\n    return [chance.pick(target_probs[0])]\n"
    result = run("prove", "--verifier", f"{write('noisy.py', source)}:verify", "--json")
    assert json.loads(result.stdout)[0]["lossless"]
    assert result.stderr.startswith("loaded\ncalled\n")


@pytest.mark.usefixtures("small_battery")
def test_a_module_on_the_path_and_a_file_named_like_a_standard_one(run, write, monkeypatch):
    file = write("token.py", OWN)
    write("own_kernels.py", "from token import EXACT_TOKEN_TYPES\nfrom helper_of_kernels import right\n")
    write("helper_of_kernels.py", OWN)
    monkeypatch.chdir(file.parent)
    assert run("prove", "--verifier", "token.py:right").exit_code == 0
    assert run("prove", "--verifier", "own_kernels:right").exit_code == 0
    assert run("prove", "--verifier", "own_kernels.py:right").exit_code == 0


def test_the_bar_is_on_standard_error_of_a_terminal(run, monkeypatch):
    assert run("prove", "greedy").stderr == ""
    monkeypatch.setenv("FORCE_COLOR", "1")
    result = run("prove", "greedy")
    steps = f"{2 * len(BATTERY)}/{2 * len(BATTERY)}"
    assert steps in result.stderr
    assert steps not in result.stdout


OWN_TREES = """
import numpy as np

def numpy_code(rng, draft, target_probs):
    node, emitted = 0, []
    while True:
        target, siblings, node = target_probs[node], draft.siblings(node), None
        for child, token in zip(siblings.nodes, siblings.tokens) if siblings else ():
            assert siblings.row.dtype == np.float64
            if rng.random() < target[token] / siblings.row[token]:
                node, emitted = child, [*emitted, token]
                break
            target = np.maximum(target - siblings.row, 0)
            target = target / target.sum()
        if node is None:
            return [*emitted, rng.choice(len(target), p=target)]

def from_target(chance, draft, target_probs):
    node, emitted = 0, []
    while True:
        target, siblings, node = target_probs[node], draft.siblings(node), None
        for child, token in zip(siblings.nodes, siblings.tokens) if siblings else ():
            if chance.flip(min(1, target[token] / siblings.row[token])):
                node, emitted = child, [*emitted, token]
                break
        if node is None:
            return [*emitted, chance.pick(target)]
"""


@pytest.mark.usefixtures("small_battery")
class TestTrees:
    """Verifiers of one's own that are given trees, and those of the table given others than their own."""

    @pytest.fixture
    def where(self, write):
        file = write("trees.py", OWN_TREES)
        return lambda name: f"{file}:{name}"

    def test_numpy_code(self, run, where):
        (found,) = json.loads(
            run("prove", "--verifier", where("numpy_code"), "--paths", "2", "--json").stdout
        )
        assert found["lossless"]
        assert found["tolerance"] == 2**-40
        (same,) = json.loads(run("prove", "recursive", "--paths", "2", "--json").stdout)
        assert found["tokens_per_target_pass"] == pytest.approx(same["tokens_per_target_pass"])
        assert [one["name"] for one in found["instances"]] == [one["name"] for one in same["instances"]]

    def test_a_wrong_one_is_told_as_a_tree(self, run, where):
        """The draft 0, 2 has probability .50 .25 = 1/8 on this instance; 3 .20 * .50 = 1/10 before 0."""
        result = run("prove", "--verifier", where("from_target"), "--paths", "2")
        assert result.exit_code == 1
        shown = " ".join(result.stdout.split())
        assert "The simplest is 'four tokens, disjoint in part'" in shown
        assert "the draft is the tree " in shown
        assert re.search(r"draft \d and \d rejected and 2 drawn", shown)

    @pytest.mark.parametrize(
        "option",
        ["--paths 2", "--tree 2,1", "--tree 2:top", "--tree sequoia:2", "--tree best-first:2"],
    )
    def test_the_code_can_be_pasted(self, run, where, option):
        options = "--verifier", where("from_target"), *option.split(), "--greedy", "--json"
        (found,) = json.loads(run("prove", *options).stdout)
        done = subprocess.run(
            [sys.executable, "-c", found["code"]], capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stdout.startswith("Proof(distance ")
        assert done.stderr == ""
        lines = found["code"].splitlines()
        assert lines[:4] == [
            "import sys",
            "from functools import partial",
            "",
            "from speculative import Instance, draft, temperature",
        ]
        assert "warp=temperature(0), make_drafter=partial(draft." in found["code"]

    @pytest.mark.parametrize("options", [(), ("--paths", "2"), ("--tree", "2")])
    def test_a_fault_planted_in_the_table(self, run, monkeypatch, options):
        def first(chance, draft, target_probs):
            tokens = draft.tokens[: len((draft.siblings(0) is not None and draft.tokens) or ()) and 1]
            return [*tokens, chance.pick(target_probs[len(tokens)])]

        planted = Verifier(
            first, "nowhere", lossless=True, drafts="tree", make_drafter=partial(paths, num_paths=2)
        )
        monkeypatch.setitem(VERIFIERS, "recursive", planted)
        result = run("prove", "recursive", *options, "--json")
        assert result.exit_code == 1
        (found,) = json.loads(result.stdout)
        made = "VERIFIERS['recursive'].make_drafter" if not options else "partial(draft."
        assert f"print(instance.prove(VERIFIERS['recursive'].function, make_drafter={made}" in found["code"]
        exec(compile(found["code"], "pasted", "exec"), {})

    def test_a_verifier_that_wants_other_drafts(self, run):
        result = run("prove", "k_seq", "--tree", "2:top")
        assert result.exit_code == 2
        wanted = "k_seq takes a tree of independent siblings: write --tree 2:independent"
        assert result.stderr == f"speculative prove: --tree 2:top: {wanted}\n"

    def test_too_many_paths_are_no_matter_of_the_shape(self, run):
        result = run("prove", "recursive", "--paths", "2", "--max-paths", "3")
        assert (
            result.stderr
            == "speculative prove: more than 3 paths: ask fewer questions, or raise --max-paths\n"
        )


READERS = """
from speculative import verify

def alone(chance, draft, target_probs):
    return [chance.pick(target_probs[0])]

def chains(chance, draft, target_probs):
    draft.probs[:0]
    return verify.recursive(chance, draft, target_probs)

def library(chance, draft, target_probs):
    return verify.recursive(chance, draft, target_probs)

def only_trees(chance, draft, target_probs):
    if len(draft):
        assert len(draft.parents) == len(draft.tokens)
    return verify.recursive(chance, draft, target_probs)

def by_type(rng, draft, target_probs):
    if type(draft).__name__ == "DraftTree" or isinstance(draft, DraftTree):
        draft.siblings(0)
    return [int(rng.choice(target_probs.shape[1], p=target_probs[0]))]

def wrong_below(chance, draft, target_probs):
    node, emitted, left = 0, [], target_probs[0]
    while (siblings := draft.siblings(node)) is not None:
        for child, token in zip(siblings.nodes, siblings.tokens):
            if chance.flip(min(1, target_probs[node][token] / siblings.row[token])):
                node, emitted, left = child, [*emitted, token], target_probs[child]
                break
        else:
            return [*emitted, chance.pick([max(0, q - p) for q, p in zip(target_probs[node], siblings.row)])]
    return [*emitted, chance.pick(left)]

def pairs(chance, draft, target_probs):
    return verify.spechub(chance, draft, target_probs)
from speculative import DraftTree
"""


class TestLookingAtTrees:
    """Without --paths and --tree a verifier of one's own that looks at trees is proved on trees as well."""

    @pytest.fixture
    def where(self, write):
        file = write("readers.py", READERS)
        return lambda name: f"{file}:{name}"

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("alone", (False, False)),
            ("chains", (False, False)),
            ("library", (True, False)),
            ("only_trees", (True, True)),
            ("by_type", (True, False)),
            ("wrong_below", (True, False)),
            ("pairs", (True, False)),
        ],
    )
    def test_what_is_read(self, where, name, expected):
        with as_found():
            assert reads(candidate(where(name))) == Reads(*expected)

    @pytest.mark.usefixtures("small_battery")
    def test_what_holds_on_chains_alone_fails(self, run, where):
        """It tries each sibling as if it were the first: right for one, and wrong for a second."""
        result = run("prove", "--verifier", where("wrong_below"), "--json")
        assert result.exit_code == 1
        chains, trees = json.loads(result.stdout)
        assert (chains["lossless"], trees["lossless"]) == (True, False)
        assert chains["drafts"] == "chains of up to 1 draft"
        assert trees["drafts"] == "2 independent paths of up to 1 draft"
        assert "make_drafter=partial(draft.paths, num_paths=2)" in trees["code"]
        shown = " ".join(run("prove", "--verifier", where("wrong_below")).stdout.split())
        assert "it has to hold on chains, its first row, and on 2 independent paths" in shown
        assert "Proved on chains of up to 1 draft: 4 instances" in shown
        assert "; on 2 independent paths of up to 1 draft: 4 instances. On each" in shown
        assert "is not lossless on 2 independent paths of up to 1 draft: it fails on " in shown
        assert "others are drawn with --tree 2,2:without-replacement, --tree 2,2:top" in shown

    @pytest.mark.usefixtures("small_battery")
    def test_what_reads_no_tree_is_proved_on_chains_and_says_so(self, run, where):
        result = run("prove", "--verifier", where("chains"))
        assert result.exit_code == 0
        assert "Proved on chains of up to 1 draft: 4 instances. On each" in " ".join(result.stdout.split())
        assert "looks at its drafts" not in result.stdout

    @pytest.mark.usefixtures("small_battery")
    def test_chains_are_trees_of_one_path_for_what_reads_parents(self, run, where):
        result = run("prove", "--verifier", where("only_trees"), "--json")
        assert result.exit_code == 0
        chains, trees = json.loads(result.stdout)
        assert chains["drafts"] == "trees of one path of up to 1 draft"
        assert trees["drafts"] == "2 independent paths of up to 1 draft"

    @pytest.mark.usefixtures("small_battery")
    def test_one_for_other_trees_names_the_options(self, run, where):
        result = run("prove", "--verifier", where("pairs"))
        assert result.exit_code == 2
        assert "it looks at its drafts as trees, so it is proved on 2 independent paths too" in result.stderr
        assert "or --tree with the trees it is for" in result.stderr
        assert result.stderr.count("\n") == 1
        assert run("prove", "--verifier", where("pairs"), "--tree", "2:hub").exit_code == 0
        wrong = run("prove", "--verifier", where("pairs"), "--tree", "2:top").stderr
        assert "its siblings were made of the most probable tokens; others are drawn with" in wrong
        assert "--tree 2:independent" in wrong
        assert "--tree 2:top," not in wrong

    @pytest.mark.usefixtures("small_battery")
    def test_other_schemes_are_named_where_one_fails(self, run, where):
        options = "--verifier", where("wrong_below"), "--tree", "2"
        result = run("prove", *options)
        assert result.exit_code == 1
        shown = " ".join(result.stdout.split())
        assert "Proved on tree 2 drawn without replacement: 4 instances" in shown
        assert (
            "Its siblings were drawn without replacement; others are drawn with --tree 2:independent" in shown
        )
        one_path = run("prove", "--verifier", where("alone"), "--paths", "1").stdout
        assert "Proved on trees of one path of up to 1 draft" in " ".join(one_path.split())


def test_what_was_left_out_as_too_large_is_said(run, monkeypatch):
    monkeypatch.setattr("speculative.cli.prove.BATTERY", BATTERY[:8])
    monkeypatch.setattr("speculative.cli.prove.MOST_DRAFTS", 16)
    (found,) = json.loads(run("prove", "recursive", "--json").stdout)
    assert found["drafts"] == "2 independent paths of up to 1 draft"
    assert len(found["instances"]) + len(found["left_out"]) == 8
    assert not {one["name"] for one in found["instances"]} & set(found["left_out"])
    shown = " ".join(run("prove", "recursive", "token").stdout.split())
    left = len(found["left_out"])
    assert (
        f"on 2 independent paths of up to 1 draft (recursive): {8 - left} instances and {left} left out as "
        "too large, with more than 16 drafts; on chains of up to 2 drafts (token): 8 instances. On each"
        in shown
    )


@pytest.mark.parametrize("columns", [80, 110])
def test_names_and_drafts_in_a_narrow_terminal(run, monkeypatch, columns):
    monkeypatch.setattr("speculative.cli.prove.BATTERY", BATTERY[:3])
    monkeypatch.setenv("COLUMNS", str(columns))
    names = "recursive_distinct", "lifted_transport", "greedy_block", "spechub", "typical"
    shown = run("prove", *names).stdout
    assert "…" not in shown
    rows = [line.split() for line in shown.splitlines()]
    header = " ".join(rows[1])
    assert [row[0] for row in rows if len(row) > 3 and row[1] in {"lossless", "lossy"}] == list(names)
    assert header == "verifier verdict distance tokens/pass in float64" + " drafts" * (columns > 100)
    assert (
        "on tree 2,2 in pairs with the most probable token, no draft deeper than 1 (spechub): 3"
        in " ".join(shown.split())
    )


class TestCandidate:
    @pytest.fixture(autouse=True)
    def _leave_no_trace(self):
        with as_found():
            yield

    def test_kinds(self, own):
        assert not candidate(own("right")).numpy
        assert candidate(own("numpy_code")).numpy
        assert candidate(own("coarse")).numpy  # by its annotation
        assert isinstance(candidate(own("right")), Candidate)

    def test_a_callable_object_and_an_annotated_chance(self, write):
        source = (
            "from speculative import Chance\n"
            "class Rule:\n    def __call__(self, luck: Chance, draft, target_probs): return [0]\n"
            "rule = Rule()\n"
        )
        assert candidate(f"{write('rule.py', source)}:rule")(None, None, None) == [0]

    def test_no_such_function(self, own):
        with pytest.raises(OwnCodeError, match="write one of right, rounded, from_target"):
            candidate(own("nothing"))

    def test_only_functions_written_there_are_named(self, write):
        write("beside.py", "def helper(): pass\n")
        where = write("kernels.py", "from beside import helper\nfrom math import pi\ndef rule(): pass\n")
        with pytest.raises(OwnCodeError, match=r"in .*kernels\.py: write one of rule$"):
            candidate(f"{where}:nope")
        where = write("empty.py", "from beside import helper\n")
        with pytest.raises(OwnCodeError, match=r"in .*empty\.py: it defines none$"):
            candidate(f"{where}:nope")


class TestReason:
    @staticmethod
    def of(verify, instance):
        return reason(instance, instance.prove(verify), verify, instance.target)

    def test_the_ways_add_up(self):
        found = self.of(VERIFIERS["lenient"].function, OVERLAPPING)
        assert found.tokens == (0,)
        assert sum(share for _, share in found.ways) == found.probability > found.target_probability
        assert found.likeliest == "draft 0 accepted, bonus 1 drawn"

    def test_a_drafter_may_flip(self):
        """Its answers are told as those of the draft, whatever it asked."""
        row = OVERLAPPING.draft(())

        def propose(chance, context, num_draft_tokens):
            return Draft((1,), (row,)) if chance.flip(Fraction(1, 3)) else Draft((0,), (row,))

        drafter = Drafter(propose, 4)
        verify = VERIFIERS["lenient"].function
        proof = prove(verify, OVERLAPPING.target, drafter, num_draft_tokens=1)
        found = reason(OVERLAPPING, proof, verify, OVERLAPPING.target, drafter)
        assert found.path.startswith("the draft is False (probability 2/3 = 0.666667); a flip says")

    def test_a_bonus_that_is_wrong(self):
        """C3: the bonus from the draft's last row: the first token is right and the second is not."""

        def verify(chance, draft, target_probs):
            verdict = token(chance, draft, target_probs)
            if verdict.accepted == len(draft):
                return Verdict((*draft.tokens, chance.pick(draft.probs[-1])), len(draft))
            return verdict

        found = self.of(verify, OVERLAPPING)
        assert len(found.tokens) == 2
        accepted, bonus = found.tokens
        assert f"draft {accepted} accepted, bonus {bonus} drawn" in dict(found.ways)
        assert any(way.endswith("and the round ends there") for way, _ in found.ways)


def test_the_library_does_not_need_the_extra():
    assert callable(cli.main)


def test_how_deep_was_drafted_is_said_where_it_is_less_than_asked_for():
    wide, narrow = (partial(draft.tree, branching=branching) for branching in ((3, 3, 3, 3), (3, 2, 1)))
    assert drafts_in(wide, fitting(wide)).endswith("no draft deeper than 3")
    assert "deeper" not in drafts_in(narrow, fitting(narrow))
    assert max(one.num_draft_tokens for one in fitting(narrow)) >= 3
