"""Whatever is wrong with the input: one line on stderr, exit code 2, nothing on stdout, no traceback."""

import pytest

NAN = """
import numpy as np
from speculative import Oracle, from_logits, from_probs
def nan(vocabulary):
    return from_logits(lambda context: np.full(len(vocabulary), np.nan), len(vocabulary))
def heavy(vocabulary):
    return from_probs(lambda context: np.full(len(vocabulary), 0.5), len(vocabulary))
def small(vocabulary):
    return from_probs(lambda context: np.array([0.5, 0.5]), 2)
def nothing(vocabulary):
    return None
def broken(vocabulary):
    return 1 / 0
"""
VERIFIERS = """
def nobody(source, draft, target_probs): return [0]
def few(chance): return [0]
def raising(chance, draft, target_probs):
    return draft.nothing if len(draft) else [0]
def silent(chance, draft, target_probs): return []
def outside(chance, draft, target_probs): return [99]
def gaussian(rng, draft, target_probs): return [int(rng.standard_normal() > 0)]
def first(chance, draft, target_probs): return [draft.tokens[0]]
def slow(chance, draft, target_probs): return [sum(chance.flip(0.5) for _ in range(30)) * 0]
value = 3
"""


@pytest.fixture
def refused(run):
    """Run the command, check how it refuses, and return the line."""

    def line(*arguments):
        result = run(*arguments)
        assert result.exit_code == 2, result.output
        assert result.stdout == ""
        assert result.stderr.startswith("speculative")
        assert result.stderr.count("\n") == 1
        assert result.stderr.endswith("\n")
        assert "Traceback" not in result.stderr
        return result.stderr

    return line


@pytest.mark.parametrize(
    ("arguments", "passed", "wrong", "instead"),
    [
        (
            "generate --verifier tokne",
            "--verifier 'tokne'",
            "unknown",
            "did you mean token? write one of token, ",
        ),
        (
            "generate --drafter model",
            "--drafter 'model'",
            "unknown",
            "write one of ngram, neural, 5gram, draft, draft-kl, draft-tv, medusa, eagle, lookup, suffix, "
            "lookahead, the path of a checkpoint folder, or file.py:function for one of your own",
        ),
        (
            "generate --target gpt",
            "--target 'gpt'",
            "unknown",
            "write shakespeare, the path of a checkpoint folder, ngram, or file.py:function",
        ),
        ("plan --text bundled --target gpt", "--target 'gpt'", "unknown", "write ngram, or file.py:function"),
        *(
            (f"generate --target ngram --drafter {name}", f"--drafter {name} needs", "checkpoint", "ngram")
            for name in ("5gram", "draft", "draft-kl", "draft-tv", "medusa", "eagle", ".")
        ),
        *(
            (
                f"generate --verifier greedy_block --drafter {name}",
                f"--drafter {name}: greedy_block carries",
                "the same model's drafts in each",
                "write --drafter ngram",
            )
            for name in ("lookup", "suffix", "lookahead", "medusa", "eagle")
        ),
        *(
            (
                f"generate --drafter lookahead --verifier {name}",
                f"--drafter lookahead drafts trees of likely tokens, and {name} takes {taken}",
                "",
                "write --verifier recursive",
            )
            for name, taken in (
                ("token", "one path"),
                ("k_seq", "a tree of independent siblings"),
                ("spechub", "a tree of pairs with the most probable token"),
                ("multipath", "independent paths"),
            )
        ),
        ("generate --draft-tokens 0", "'--draft-tokens': 0", "too small", "write 1 or more"),
        ("generate --draft-tokens 1000000", "'--draft-tokens': 1000000", "too large", "write 1024 or less"),
        ("bench --draft-tokens 1025", "'--draft-tokens': 1025", "too large", "write 1024 or less"),
        ("generate --draft-tokens -3", "'--draft-tokens': -3", "too small", "write 1 or more"),
        ("generate --tokens 0", "'--tokens': 0", "too small", "write 1 or more"),
        ("generate --target-order 33", "'--target-order': 33", "too large", "write 32 or less"),
        ("generate --seed abc", "'--seed': 'abc'", "not a whole number", "write one, such as 4"),
        ("generate --seed 1.5", "'--seed': '1.5'", "not a whole number", "write one, such as 4"),
        ("generate --seed -1", "'--seed': -1", "too small", "write 0 or more"),
        ("generate --temperature -1", "'--temperature': -1", "out of range", "write a number of 0 or more"),
        ("generate --temperature nan", "'--temperature': nan", "out of range", "write a number of 0 or more"),
        ("generate --temperature warm", "'--temperature': 'warm'", "not a number", "write one, such as 0.7"),
        ("generate --top-k 0", "'--top-k': 0", "too small", "write 1 or more"),
        ("generate --top-p 1.5", "'--top-p': 1.5", "out of range", "above 0 and at most 1"),
        ("generate --min-p -0.5", "'--min-p': -0.5", "out of range", "write a number from 0 to 1"),
        (
            "generate --target ngram --text /no/such/file",
            "--text '/no/such/file'",
            "No such file",
            "the path of a text file",
        ),
        ("generate a b", "b", "unexpected extra argument", "see speculative generate --help"),
        ("generate --bogus", "--bogus", "No such option", "see speculative generate --help"),
        ("generate --seed", "--seed", "requires an argument", "see speculative --help"),
        ("--bogus", "--bogus", "No such option", "see speculative --help"),
        ("invent", "invent", "No such command", "see speculative --help"),
        ("prove token sampling", "verifier 'sampling'", "unknown", "write one of token, "),
        ("prove --paths 2", "--paths", "needs --verifier, or the names of verifiers", ""),
        ("prove --tree 2", "--tree", "needs --verifier, or the names of verifiers", ""),
        (
            "prove token --paths 2",
            "--paths 2",
            "token takes one path",
            "one path: write recursive, or another",
        ),
        ("prove recursive --tree x", "--tree x", "is no tree", "write widths by depth such as 3,2,1, or"),
        ("prove recursive --paths 0", "'--paths': 0", "too small", "write 1 or more"),
        ("generate --verifier recursive --paths 9999", "'--paths': 9999", "too large", "write 1024 or less"),
        ("generate --verifier recursive --paths 2 --tree 2", "--paths and --tree", "two ways", "give one"),
        (
            "generate --verifier token --paths 2",
            "--paths 2",
            "token takes one path",
            "write --verifier recursive, or another verifier for trees: greedy, match, recursive_distinct",
        ),
        (
            "generate --verifier block --tree 2,1",
            "--tree 2,1",
            "block takes one path",
            "--verifier recursive",
        ),
        (
            "generate --drafter shakespeare-neural",
            "'shakespeare-neural'",
            "unknown",
            "write --drafter neural\n",
        ),
        ("bench --drafter shakespeare-draft-kl", "'shakespeare-draft-kl'", "unknown", "--drafter draft-kl\n"),
        ("generate --drafter shakespeare-big", "'shakespeare-big'", "unknown", "write one of ngram, neural"),
        ("generate --verifier recursive --tree 3,,1", "--tree 3,,1", "is no tree", "or best-first:16"),
        ("generate --verifier recursive --tree 3,0", "--tree 3,0", "is no tree", "write widths"),
        ("generate --verifier recursive --tree 3,-1", "--tree 3,-1", "is no tree", "write widths"),
        ("generate --verifier recursive --tree eagle:16", "--tree eagle:16", "is no tree", "sequoia:16"),
        ("generate --verifier recursive --tree sequoia", "--tree sequoia", "how many nodes", "sequoia:16"),
        ("generate --verifier recursive --tree sequoia:0", "--tree sequoia:0", "how many nodes", "1 to 1024"),
        ("generate --verifier recursive --tree 2:best", "--tree 2:best", "no such way to draw", "hub"),
        ("generate --verifier recursive --tree 99,99", "--tree 99,99", "9900 nodes", "1024 or less"),
        (
            "generate --verifier k_seq --tree 9,9,9:top",
            "--tree 9,9,9:top",
            "k_seq takes a tree of independent siblings",
            "write --tree 9,9,9:independent\n",
        ),
        (
            "prove canonical --tree 2:without-replacement",
            "--tree 2:without-replacement",
            "canonical takes a tree of independent siblings",
            "write --tree 2:independent\n",
        ),
        (
            "generate --verifier spechub --tree 2,2:independent",
            "--tree 2,2:independent",
            "spechub takes a tree of pairs with the most probable token",
            "write --tree 2,2:hub\n",
        ),
        (
            "prove spechub --paths 200",
            "--paths 200",
            "spechub takes a tree of pairs with the most probable token",
            "write --tree 2,2:hub\n",
        ),
        (
            "generate --verifier multipath --tree 2,2",
            "--tree 2,2",
            "multipath takes independent paths",
            "write --paths 2\n",
        ),
        (
            "generate --verifier multipath --tree sequoia:9",
            "--tree sequoia:9",
            "multipath takes independent paths",
            "write --paths 2\n",
        ),
        (
            "generate --verifier transport --tree 3,2:without-replacement --temperature 2",
            "--tree 3,2:without-replacement: transport of 3 siblings over",
            "and takes a tree",
            "write --tree 3,2:independent\n",
        ),
        (
            "generate --drafter paths",
            "--drafter 'paths'",
            "unknown",
            "write one of ngram, neural, 5gram, draft",
        ),
        ("verifiers token", "token", "unexpected extra argument", "see speculative verifiers --help"),
        ("prove --verifier mine", "'mine'", "names no function", "write file.py:function"),
        ("prove --verifier no/such.py:verify", "'no/such.py'", "is no file", "the path of a Python file"),
        ("prove --verifier no_such_module:verify", "no_such_module:verify", "No module named", ""),
        (
            "prove --verifier a.py:b --tolerance much",
            "'--tolerance': 'much'",
            "not a number",
            "write one, such as 1e-6",
        ),
        ("prove --tolerance inf", "'--tolerance': inf", "out of range", "from 0 to 1"),
        ("prove --tolerance -1", "'--tolerance': -1", "out of range", "from 0 to 1"),
        ("prove --verifier math:hypot", "math:hypot", "does not take three", "write a function of (chance"),
        ("prove token --max-paths 3", "more than 3 paths", "ask fewer questions", "raise --max-paths"),
        ("plan", "either --alpha or --text", "", "write --alpha .8, or --text bundled"),
        ("plan --alpha .8 --text bundled", "either --alpha or --text", "", "write --alpha .8"),
        ("plan --alpha 1.2", "'--alpha': 1.2", "out of range", "write a number from 0 to 1"),
        ("plan --alpha 80", "'--alpha': 80", "out of range", "write a number from 0 to 1"),
        ("plan --alpha nan", "'--alpha': nan", "out of range", "write a number from 0 to 1"),
        ("plan --alpha .8 --cost -1", "'--cost': -1", "out of range", "write a number of 0 or more"),
        (
            "plan --alpha .8 --plot speedup.xyz",
            "'speedup.xyz'",
            "no known suffix",
            "write one of .png, .pdf, .svg\n",
        ),
        ("plan --alpha .8 --plot speedup", "'speedup'", "no known suffix", ".svg"),
        (
            "plan --alpha .8 --plot no/such/folder.png",
            "'no/such/folder.png'",
            "cannot be written",
            "a folder",
        ),
        ("plan --alpha .8 --batch --hardware abacus", "--hardware 'abacus'", "unknown", "A100, H100"),
        ("plan --alpha .8 --batch --parameters 0", "'--parameters': 0", "out of range", "a number above 0"),
        ("plan --text /no/such/file", "--text '/no/such/file'", "No such file", "the path of a text file"),
        ("plan --text bundled --positions 5", "'--positions': 5", "too small", "write 20 or more"),
    ],
)
def test_one_line_says_what_was_passed_what_is_wrong_and_what_to_write(
    refused, arguments, passed, wrong, instead
):
    line = refused(*arguments.split())
    for part in (passed, wrong, instead):
        assert part in line


OF_A_MODEL = "--drafter ngram, or another one that has a model"
UNUSED = (
    *(
        ("plan --alpha .8", option, "--text")
        for option in (
            "--target ngram",
            "--target-order 3",
            "--draft-order 3",
            "--positions 30",
            "--temperature .3",
            "--top-k 3",
            "--top-p .3",
            "--min-p .3",
        )
    ),
    *(
        ("plan --alpha .8", option, "--batch")
        for option in (
            "--hardware A100",
            "--parameters 70e9",
            "--bytes-per-parameter 1",
            "--context 9",
            "--cache-bytes 9",
        )
    ),
    ("plan --alpha .8 --batch", "--cache-bytes 9", "--context"),
    ("generate --target ngram --drafter lookup", "--draft-order 3", "--drafter ngram"),
    ("generate --target ngram --drafter a.py:b", "--draft-order 3", "--drafter ngram"),
    *(
        (f"generate --drafter {name}{verifier}", option, OF_A_MODEL)
        for name in ("lookup", "suffix", "lookahead", "a.py:b")
        for verifier in ("", " --verifier recursive")
        for option in ("--paths 2", "--tree 2")
    ),
    *(
        (f"generate --target {target}", option, "--target ngram")
        for target in ("shakespeare", ".")
        for option in ("--text a.txt", "--target-order 3", "--draft-order 3")
    ),
    (
        "generate --verifier recursive --tree 2,2",
        "--draft-tokens 3",
        "a tree without widths: --tree 2,2 says how deep it is",
    ),
    ("generate --target a.py:b", "--target-order 3", "--target ngram"),
    *(("prove", option, "--verifier") for option in ("--lossy", "--greedy", "--tolerance 1e-6")),
)


@pytest.mark.parametrize(("command", "option", "needed"), UNUSED)
def test_an_option_that_would_be_ignored_is_refused(refused, command, option, needed):
    line = refused(*command.split(), *option.split())
    assert line.endswith(f": {option.split()[0]} needs {needed}\n")


@pytest.mark.parametrize(
    ("content", "wrong"),
    [(b"", "is empty: give a file with some text"), (b"abc\xff", "is not UTF-8 at byte 3")],
)
def test_a_file_that_is_no_text(refused, tmp_path, content, wrong):
    (tmp_path / "bad.txt").write_bytes(content)
    for command in (("generate", "--target", "ngram"), ("plan",)):
        assert wrong in refused(*command, "--text", str(tmp_path / "bad.txt"))


def test_a_text_too_short_to_measure_on(refused, tmp_path):
    (tmp_path / "short.txt").write_text("to be or not to be")
    assert "has 18 characters: give a text of 1000 or more" in refused(
        "plan", "--text", str(tmp_path / "short.txt")
    )


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("nan", "the logits at context (0, 1) have nan for token 0: give finite logits"),
        ("heavy", "the row at context (0, 1) sums to"),
        ("small", "it has 2 tokens for a text of 14 different characters: make one of the vocabulary"),
        ("nothing", "it returned a NoneType: return an Oracle, made by from_logits or from_probs"),
        ("broken", "ZeroDivisionError: division by zero (line 13)"),
        ("missing", "no function 'missing' in"),
    ],
)
def test_a_model_of_the_users_own_that_is_wrong(refused, write, text, name, wrong):
    where = f"{write('models.py', NAN)}:{name}"
    line = refused("generate", "\n ", "--text", text, "--target", where, "--json")
    assert where in line
    assert wrong in line
    assert where in refused("plan", "--text", text, "--target", where)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("nobody", "its first parameter 'source' could be anything: call it chance, or rng"),
        ("few", "few does not take three arguments: write a function of (chance, draft, target_probs)"),
        ("raising", "AttributeError: 'Draft' object has no attribute 'nothing' (line 5)"),
        ("silent", "silent, proved on 'no drafts': the verifier emitted 0 tokens for 0 drafts: emit 1"),
        ("outside", "the verifier emitted token 99: give tokens from 0 to 2"),
        (
            "first",
            "first, proved on 'no drafts': IndexError: tuple index out of range (line 9); no token is "
            "drafted there: k can be 0, and draft.tokens and draft.probs are then empty",
        ),
        (
            "slow",
            "slow, proved on 'no drafts': more than 500 paths: ask fewer questions, or raise --max-paths\n",
        ),
        ("gaussian", "Generator.standard_normal()"),
        ("value", "no function 'value' in"),
    ],
)
def test_a_verifier_of_the_users_own_that_cannot_be_proved(refused, write, name, wrong):
    where = f"{write('verifiers.py', VERIFIERS)}:{name}"
    line = refused("prove", "--verifier", where, "--max-paths", "500")
    assert where in line
    assert wrong in line


@pytest.mark.parametrize(
    ("source", "wrong"),
    [
        ("def verify(:\n", "SyntaxError: invalid syntax"),
        ("\nimport no_such_module\n", "ModuleNotFoundError: No module named 'no_such_module' (line 2)"),
        ("raise SystemExit('bye')\n", "SystemExit: bye (line 1)"),
        ("", "no function 'verify' in"),
    ],
)
def test_a_file_that_does_not_import(refused, write, source, wrong):
    assert wrong in refused("prove", "--verifier", f"{write('broken.py', source)}:verify")


@pytest.mark.parametrize("rule", ["chance.flip(1 / next(count))", "chance.pick([next(count), 1])"])
def test_an_impure_verifier_is_told_so(refused, write, rule):
    source = "import itertools\ncount = itertools.count(2)\ndef verify(chance, draft, target_probs):\n"
    source += f"    {rule}\n    return [0]\n"
    where = f"{write('impure.py', source)}:verify"
    line = refused("prove", "--verifier", where)
    assert line.startswith(f"speculative prove: {where}, proved on 'no drafts': question 1 was ")
    assert line.endswith(
        "after the same answers: the program keeps state between runs or draws by itself; draw from `chance` "
        "only (line 4)\n"
    )


def test_a_verifier_that_draws_by_itself_is_told_so(refused, write):
    """Its questions are the same, none at all: what it emits differs from run to run."""
    source = "import itertools\ncount = itertools.count()\ndef verify(chance, draft, target_probs):\n"
    source += "    return [next(count) % 3]\n"
    line = refused("prove", "--verifier", f"{write('alone.py', source)}:verify")
    assert "the verifier or the drafter keeps state between runs or draws by itself" in line


DRAFTERS_OF_ONES_OWN = """
from speculative import Draft, point_mass
def nothing(chance, context, num_draft_tokens): return None
def strange(chance, context, num_draft_tokens): return Draft((0,), (point_mass(0, 3),))
def raising(rng, context, num_draft_tokens): return context[10**6]
def few(chance): return None
def anything(source, context, num_draft_tokens): return None
"""


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("nothing", "the drafter returned None: return a Draft(tokens, probs)"),
        ("strange", "the drafter's rows have 3 tokens, the target's 14"),
        ("raising", "IndexError: tuple index out of range (line 5)"),
        ("few", "few does not take three arguments: write a function of (chance, context, num_draft_tokens)"),
        ("anything", "its first parameter 'source' could be anything: call it chance, or rng"),
        ("missing", "no function 'missing' in"),
    ],
)
def test_a_drafter_of_the_users_own_that_is_wrong(refused, write, text, name, wrong):
    where = f"{write('drafters.py', DRAFTERS_OF_ONES_OWN)}:{name}"
    line = refused("generate", "--target", "ngram", "--text", text, "--drafter", where, "--json")
    assert where in line
    assert wrong in line


def test_of_two_pieces_of_own_code_the_one_that_raised_is_blamed(refused, write, text):
    drafter = f"{write('drafters.py', DRAFTERS_OF_ONES_OWN)}:raising"
    source = "from speculative import from_probs\nfrom speculative.model import Characters\n"
    source += "def uniform(vocabulary):\n"
    source += "    size = len(vocabulary)\n    return from_probs(lambda context: [1 / size] * size, size)\n"
    model = f"{write('models.py', source)}:uniform"
    line = refused("generate", "--text", text, "--drafter", drafter, "--target", model, "--json")
    assert line.startswith(f"speculative generate: {drafter}: IndexError")


def test_own_code_is_not_blamed_for_the_rest(refused, write, text):
    drafter = f"{write('drafters.py', DRAFTERS_OF_ONES_OWN)}:nothing"
    begin = "speculative generate: --target 'missing' is unknown"
    assert refused("generate", "--target", "missing", "--drafter", drafter).startswith(begin)
    line = refused("generate", "--target", "ngram", "--drafter", drafter, "--text", "missing.txt")
    assert line.startswith("speculative generate: --text 'missing.txt' cannot be read")
    line = refused("generate", "aä", "--target", "ngram", "--drafter", drafter, "--text", text)
    assert line == (
        "speculative generate: the prompt has 'ä' at position 1, which the text has nowhere: leave it out, "
        "or give --text FILE with a text that has it\n"
    )
