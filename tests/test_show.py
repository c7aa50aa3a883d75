import io
import re
from fractions import Fraction

import pytest
from rich.console import Console

from speculative import point_mass, rational, show
from speculative.battery import Instance
from speculative.draft import NO_DRAFT, Draft, DraftTree, Siblings, independent
from speculative.laws import Answer
from speculative.measure import Estimate
from speculative.show.console import WIDTH_OF_A_PIPE, Terminal
from speculative.show.generation import MEANINGS
from speculative.show.proofs import MOST_WAYS, in_units, verdict
from speculative.verify import lenient, token

INSTANCES = (
    Instance("four, disjoint in part", {(): ".10 .60 .30 0"}, {(): ".50 .05 .25 .20"}, 1),
    Instance("four, overlapping", {(): ".10 .60 .30 0"}, {(): ".50 .20 .10 .20"}, 1),
    Instance("disjoint supports", {(): "0 0 1/3 2/3"}, {(): "1/4 3/4 0 0"}, 1),
)


def plain(renderable) -> str:
    """Return what a renderable looks like without colours, with spaces joined."""
    console = Console(file=io.StringIO(), width=200, color_system=None)
    console.print(renderable)
    return "\n".join(" ".join(line.split()) for line in console.file.getvalue().splitlines())


def console(**options) -> Terminal:
    """Return a console that writes to a string."""
    return Terminal(file=io.StringIO(), width=60, highlight=False, _environ={}, **options)


COLOUR = {"force_terminal": True, "color_system": "standard"}


class TestTranscript:
    PIECES = (("to be", "accepted"), (" ", "residual"), ("o", "residual"), ("r", "accepted"), ("\n", "bonus"))

    def write(self, out, pieces):
        transcript = show.Transcript(out)
        for piece in pieces:
            transcript.write(*piece)
        transcript.end()
        return out.file.getvalue()

    def test_every_marked_token_has_marks_of_its_own(self):
        assert self.write(console(), self.PIECES) == "to be[ ][o]r{↵}\n\n"
        pieces = [("a", "residual"), ("b", "bonus"), ("", "accepted"), ("c", "bonus")]
        assert self.write(console(), pieces) == "[a]{b}{c}\n"
        assert self.write(console(), [("a", "undrafted"), ("\n", "undrafted")]) == "<a><↵>\n\n"
        assert self.write(console(**COLOUR), [("a", "undrafted")]) == "\x1b[1;37;100ma\x1b[0m\n"

    def test_a_break_follows_its_marks(self):
        pieces = [("a", "residual"), ("\n", "residual"), ("b", "residual"), ("c", "accepted")]
        assert self.write(console(), pieces) == "[a][↵]\n[b]c\n"

    def test_breaks_of_accepted_drafts_are_plain(self):
        assert self.write(console(), [("a\nb", "accepted"), ("c\n", "prompt")]) == "a\nbc\n\n"

    def test_brackets_in_the_text_are_no_markup(self):
        assert self.write(console(), [("[bold]x[/bold]", "accepted")]) == "[bold]x[/bold]\n"

    def test_colours(self):
        coloured = self.write(console(**COLOUR), self.PIECES)
        assert coloured == (
            "\x1b[32mto be\x1b[0m\x1b[1;37;41m \x1b[0m\x1b[1;37;41mo\x1b[0m"
            "\x1b[32mr\x1b[0m\x1b[1;37;44m↵\x1b[0m\n\n"
        )

    def test_no_color_means_marks(self):
        assert self.write(console(no_color=True, **COLOUR), self.PIECES[:2]) == "to be[ ]\n"

    def test_a_break_where_arrows_cannot_be_written(self):
        out = Terminal(file=io.TextIOWrapper(io.BytesIO(), encoding="ascii"), width=60, _environ={})
        transcript = show.Transcript(out)
        transcript.write("\n", "bonus")
        out.file.flush()
        assert out.file.buffer.getvalue() == b"{\\n}\n"

    def test_long_lines_are_not_wrapped(self):
        assert self.write(console(), [("x" * 200, "accepted")]) == "x" * 200 + "\n"

    def test_every_piece_is_seen_at_once(self):
        """A file that is flushed at the end only would show nothing of a slow run while it lasts."""
        seen = []

        class Watched(io.StringIO):
            def flush(self):
                seen.append(self.getvalue())

        transcript = show.Transcript(Terminal(file=Watched(), width=60, _environ={}))
        transcript.write("a", "accepted")
        transcript.write("b", "bonus")
        assert list(dict.fromkeys(seen)) == ["a", "a{b}"]

    def test_the_legend_says_how_passes_are_counted(self):
        out = Terminal(file=io.StringIO(), width=80, _environ={})
        show.Transcript(out).legend()
        assert out.file.getvalue() == (
            "accepted draft   [residual: after a rejection]   {bonus: all drafts accepted}\n"
            "<nothing drafted>\n"
            "Every token but an accepted draft is the last one of a target pass.\n"
        )

    @pytest.mark.parametrize("options", [{}, COLOUR])
    def test_the_legend_breaks_its_line_between_meanings_where_it_is_full(self, options):
        marks = 0 if options else 2
        line = len("accepted draft   residual: after a rejection") + marks
        for width, lines in ((line, 2 if options else 3), (line - 1, 4), (200, 1), (1, 4)):
            out = Terminal(file=io.StringIO(), width=width, _environ={}, **options)
            show.Transcript(out).legend()
            legend = re.sub(r"\x1b\[[\d;]*m", "", out.file.getvalue()).partition("Every")[0]
            shown = [one.strip("[]{}<>") for one in re.split(r"   |\n", legend.rstrip("\n"))]
            assert shown == list(MEANINGS.values())
            assert legend.count("\n") == lines


class TestTerminal:
    def test_it_is_wide_in_a_pipe(self, monkeypatch, capsys):
        monkeypatch.delenv("COLUMNS", raising=False)
        assert show.terminal().width == WIDTH_OF_A_PIPE
        monkeypatch.setenv("COLUMNS", "77")
        assert show.terminal().width == 77
        assert capsys.readouterr().out == ""

    def test_colours(self, monkeypatch):
        monkeypatch.delenv("NO_COLOR", raising=False)
        assert not show.terminal().colourful
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm-256color")
        assert show.terminal().colourful
        assert not show.terminal(no_color=True).colourful
        monkeypatch.setenv("NO_COLOR", "1")
        assert not show.terminal().colourful

    def test_paragraphs_are_wrapped_between_words_only(self):
        out = console()
        out.paragraph(f"fitted on {'/long-' * 20}name [bold]as it stands[/bold] and {'more ' * 12}")
        assert out.file.getvalue().splitlines() == [
            "fitted on",
            f"{'/long-' * 20}name",
            "[bold]as it stands[/bold] and more more more more more more",
            "more more more more more more",
        ]

    def test_a_closed_pipe_is_left_to_the_caller(self):
        class Closed(io.StringIO):
            def write(self, text):
                raise BrokenPipeError

        with pytest.raises(BrokenPipeError):
            Terminal(file=Closed()).print("x")

    def test_characters_that_the_encoding_lacks_are_replaced(self, monkeypatch):
        stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
        monkeypatch.setattr("sys.stdout", stream)
        show.terminal().print("±")
        assert stream.buffer.getvalue() == b"?\n"

    def test_a_stream_without_an_encoding(self, monkeypatch):
        stream = io.StringIO()
        monkeypatch.setattr("sys.stdout", stream)
        show.terminal().print("±")
        assert stream.getvalue() == "±\n"


class TestProgress:
    def test_nothing_is_shown_unless_there_is_a_terminal(self, capsys):
        with show.progress(2) as advance:
            advance("one")
        captured = capsys.readouterr()
        assert captured.out == captured.err == ""

    def test_steps_are_counted_on_standard_error(self, capsys, monkeypatch):
        monkeypatch.setenv("FORCE_COLOR", "1")
        with show.progress(2) as advance:
            advance("one")
            advance("two")
        captured = capsys.readouterr()
        assert captured.out == ""
        assert "two" in captured.err
        assert "2/2" in captured.err


class TestWaiting:
    def test_it_is_shown_on_the_standard_error_of_a_terminal_and_gone_when_it_is_over(
        self, capsys, monkeypatch
    ):
        with show.waiting("the first round"):
            pass
        assert capsys.readouterr() == ("", "")
        monkeypatch.setenv("FORCE_COLOR", "1")
        with show.waiting("the first round") as waiting:
            waiting.stop()
            print("text")
        captured = capsys.readouterr()
        assert captured.out == "text\n"
        assert "the first round" in captured.err


@pytest.mark.parametrize(
    ("number", "written"),
    [
        (Fraction(2, 5), "2/5 = 0.4"),
        (Fraction(0), "0"),
        (Fraction(3), "3"),
        (Fraction(1, 3), "1/3 = 0.333333"),
        (Fraction(123456789, 987654321), "0.125"),
        (0.25, "0.25"),
        (1, "1"),
    ],
)
def test_numbers(number, written):
    assert show.exact(number) == written


def test_the_figures_of_a_run():
    tokens = show.Comparison(2.5, 100, 2.4, 0.05)
    accepted = [show.Comparison(0.75, 100, 0.7, 0.04), show.Comparison(0.5, 75, 0.6, 0.1)]
    lines = plain(show.figures_table(tokens, accepted)).splitlines()
    assert lines[1] == "measured expected of"
    assert lines[3:6] == [
        "tokens per target pass 2.500 ± 0.050 2.400 100 passes",
        "draft 1 accepted 0.750 ± 0.040 0.700 100 times",
        "draft 2 accepted, if reached 0.500 ± 0.100 0.600 75 times",
    ]


def test_the_figures_of_a_run_without_an_expectation():
    tokens = show.Comparison(2.5, 100, low=2.25, high=2.75)
    lines = plain(show.figures_table(tokens, [show.Comparison(0.75, 5)])).splitlines()
    assert lines[1] == "measured 95% interval of"
    assert lines[3:5] == [
        "tokens per target pass 2.500 2.250 to 2.750 100 passes",
        "draft 1 accepted 0.750 too few 5 times",
    ]


class TestVerifiers:
    LISTED = (
        show.Listed("even", "Some 2021", "tokens", True, True, "", None, Fraction(5, 2), 0.875),
        show.Listed("cold", "Some 2022", "tokens", True, True, "temperature(0)", None, 2, 1.0),
        show.Listed("later", "Some 2023", "tree", False, True, "", "a change", 2.25, 1.05),
        show.Listed("loose", "Some 2024", "tree", False, False, "", None, 3, None),
    )

    def test_rows(self):
        shown = plain(show.verifier_table(self.LISTED)).splitlines()
        assert shown[1] == "verifier drafts lossless tokens/pass of optimum published"
        assert shown[3:5] == [
            "even tokens yes 2.500 87.5 % Some 2021",
            "cold tokens yes * 2.000 100.0 % Some 2022",
        ]
        assert "later tree yes * 2.250 105.0 % Some 2023" in shown
        assert "loose tree no 3.000 Some 2024" in shown
        assert [line for line in shown if not line] == [""] * 3  # above, and between three groups

    def test_papers_below(self):
        shown = plain(show.verifier_table(self.LISTED, papers=False)).splitlines()
        assert "even tokens yes 2.500 87.5 %" in shown
        assert "verifier published" in shown
        assert "even Some 2021" in shown

    def test_colours(self):
        out = console(**COLOUR)
        out.width = 100
        out.print(show.verifier_table(self.LISTED))
        assert "\x1b[32myes" in out.file.getvalue()
        assert "\x1b[33mno" in out.file.getvalue()

    def test_what_losslessness_needs(self):
        assert show.provisos(self.LISTED) == (
            "* cold at temperature(0); later carrying a change to the next round."
        )
        assert show.provisos(self.LISTED[:1]) == ""


class TestProofs:
    @staticmethod
    def examined(verify, claimed=True, tolerance=0, **more):
        proofs = tuple((instance, instance.prove(verify)) for instance in INSTANCES)
        return show.Examined("mine", "a paper", claimed, proofs, Fraction(tolerance), drafts="chains", **more)

    def test_what_is_lossless(self):
        one = self.examined(token, rounding=Fraction(3, 2**54))
        assert one.distance == 0
        assert one.exact
        assert one.failures == []
        assert verdict(one)[0] == "lossless"
        assert "mine lossless 0 1.267 1.50 x 2^-53 chains" in plain(show.proof_table([one]))

    def test_what_is_lossy(self):
        one = self.examined(lenient, claimed=False)
        assert [instance.name for instance, _ in one.failures] == [
            "four, disjoint in part",
            "four, overlapping",
        ]
        shown = plain(show.proof_table([one]))
        assert "mine lossy 1/10 = 0.1 1.333 chains" in shown
        assert "in float64" not in shown

    def test_tables_of_both(self):
        shown = plain(show.proof_table([self.examined(token, rounding=Fraction(0)), self.examined(lenient)]))
        assert "mine lossless 0 1.267 0 chains" in shown
        assert "mine NOT LOSSLESS 1/10 = 0.1 1.333 chains" in shown

    def test_a_file_is_named_without_its_folders(self):
        shown = plain(show.proof_table([self.examined(token)._replace(name="/some/where/mine.py:rule")]))
        assert "\nmine.py:rule lossless" in shown

    def test_without_drafts(self):
        shown = plain(show.proof_table([self.examined(token)], drafts=False))
        assert "drafts" not in shown
        assert "chains" not in shown

    @pytest.mark.parametrize("length", [18, 24, 50])
    def test_names_are_never_cut(self, length):
        """All columns at their widest ask for more than 80: the others are folded, or a very long name is."""
        name = ("a_name_of_mine_" * 4)[:length]
        one = self.examined(lenient, rounding=Fraction(3, 2**54))._replace(name=name)
        out = Terminal(file=io.StringIO(), width=80, _environ={})
        out.print(show.proof_table([one, one], drafts=False))
        lines = out.file.getvalue().splitlines()
        assert max(map(len, lines)) <= 80
        assert "…" not in out.file.getvalue()
        rule = next(place for place, line in enumerate(lines) if "──" in line)
        shown = [line[2 : 2 + length].split()[0] for line in lines[rule + 1 : -1] if line[2:3].strip()]
        assert "".join(shown) == 2 * name

    def test_what_is_off_by_rounding(self):
        one = self.examined(lenient, tolerance=Fraction(1, 5))
        assert one.failures == []
        assert verdict(one)[0] == "lossless but for rounding"

    def test_a_failure_in_words(self):
        one = self.examined(lenient)
        report = show.failure_report(one)
        assert report.startswith(
            "mine is not lossless on chains: it fails on 2 of 3 instances.\nThe simplest is 'four"
        )
        assert show.failure_report(one._replace(hint="others")).endswith("\nOthers.")
        assert show.failure_report(one._replace(drafts="")).startswith("mine is not lossless: ")
        assert "Likeliest" not in report
        assert "Already" not in report
        few = show.Reason(
            (1,), Fraction(1, 2), Fraction(1, 3), [("this way", Fraction(1, 2))], "so", "a path"
        )
        told = show.failure_report(one._replace(reason=few))
        assert told.startswith(f"{report}\nLikeliest way there: a path. That is: so.\n")
        assert "Already (1,) comes first with 1/2 = 0.5 where the target has 1/3 = 0.333333:" in told
        assert told.endswith("1/2 = 0.5  this way")
        many = few._replace(ways=[(f"way {i}", Fraction(1, 10)) for i in range(MOST_WAYS + 2)])
        told = show.failure_report(one._replace(reason=many))
        assert f"way {MOST_WAYS - 1}" in told
        assert f"way {MOST_WAYS}" not in told
        assert told.endswith("and 2 ways more")

    def test_a_path_in_words(self):
        worst = INSTANCES[0].prove(lenient).worst
        words = show.in_words(worst.path, 1, Draft((0,), (point_mass(0, 4),)))
        assert words.startswith("the draft is 0 (probability 1/2 = 0.5); a flip says")
        assert words.count(";") == len(worst.path) - 1
        assert "a pick gives" in words
        assert show.in_words(worst.path[1:2], 0, NO_DRAFT).startswith("the draft is empty; a flip says")

    def test_a_tree_in_words(self):
        """Node 1 was drawn twice, and what is below it once."""
        row = rational(["1/2", "1/2"])
        draws = {
            0: Siblings((1, 2, 1), (0, 1, 0), row, independent),
            1: Siblings((3,), (1,), row, independent),
        }
        draft = DraftTree((0, 1, 1), (0, 0, 1), draws)
        path = [Answer("pick", 0, Fraction(1, 2))] * 4 + [Answer("flip", True, Fraction(1, 3))]
        assert show.in_words(path, 4, draft) == (
            "the draft is the tree 0 (1), 1, 0 (probability 1/16 = 0.0625); "
            "a flip says yes (probability 1/3 = 0.333333)"
        )

    def test_units(self):
        assert in_units(Fraction(3, 2**54)) == "1.50 x 2^-53"
        assert in_units(2.0**-52) == "2.00 x 2^-53"
        assert in_units(0) == "0"


class TestCosts:
    def test_lengths_and_the_best(self):
        lengths = [show.Length(1, 1.8, 1.6, 0.8), show.Length(2, Fraction(61, 25), 2.03, 0.72)]
        lines = plain(show.length_table(lengths, 2)).splitlines()
        assert lines[1] == "drafts k tokens per round speedup pays below cost"
        assert lines[3:5] == ["1 1.800 1.600 0.800", "2 2.440 2.030 0.720 best"]
        assert "best" not in plain(show.length_table(lengths, 0))

    def test_measured_lengths(self):
        lengths = [show.Length(1, 1.8, 1.6, 0.8, Estimate(0.8, 0.7, 0.9))]
        lines = plain(show.length_table(lengths, 1)).splitlines()
        assert lines[1:3] == [
            "accepted at k,",
            "drafts k if reached tokens per round speedup pays below cost",
        ]
        assert lines[4] == "1 0.800 [0.700, 0.900] 1.800 1.600 0.800 best"

    def test_batches(self):
        batches = [show.Batch(1, 2.0, 4, 2.1), show.Batch(512, 0.5, 0, 1)]
        lines = plain(show.batch_table(batches, 3)).splitlines()
        assert lines[1] == "batch speedup with 3 drafts best drafts speedup there"
        assert lines[3:5] == ["1 2.000 4 2.100", "512 0.500 none 1.000"]
