"""The named faults of one round: wrong rules, wrong drafts, warps on one side only.

Each line: what is wrong; how it is built; how far the law of the first token is off on fixture F, exactly
(target .10 .60 .30 0, draft .50 .05 .25 .20, one draft; 0 where F is blind to it); where it was reported.
"""

from __future__ import annotations

from math import exp, sqrt

from speculative import compose, draft, from_probs, min_p, temperature, top_k, top_p, verify

from . import blocks, drafts, rules
from .blocks import block_rule
from .rules import token_rule
from .setups import Fault, Setup, drafting, greedy_rule, rule


def wrong_draft(make):
    """Return the setup of a wrong drafter under token verification."""
    return drafting(make, token_rule())


def target_warped(warp):
    """Return the setup in which the target is scored under a warp that was not asked for."""
    return lambda target, small: Setup(verify.token, warp(target), draft.model(small), target)


def target_raw(warp):
    """Return the setup in which a warp was asked for and reached the draft alone."""
    return lambda target, small: Setup(verify.token, target, draft.model(warp(small)), warp(target))


def target_forgets(back):
    """Return the setup of a target whose cache has lost the token that stands `back` from the end."""

    def forgetful(target):
        def row(context):
            lost = len(context) - back
            return target(context if lost < 0 else context[:lost] + context[lost + 1 :])

        return from_probs(row, target.vocab_size)

    return lambda target, small: Setup(verify.token, forgetful(target), draft.model(small), target)


_SOFTMAX = [exp(0), exp(0.55), exp(0.05), exp(0)]
_ROOTS = [sqrt(0.1), sqrt(0.6), sqrt(0.3), 0.0]

CLASSIC = (
    Fault(
        "inverted ratio", rule(token_rule(accept=rules.inverted)),
        law=("1/2", "27/320", "69/320", "1/5"), distance="3/5", printed=".50 .084 .216 .20  .600",
    ),
    Fault(
        "always accepted", rule(token_rule(accept=rules.always)),
        law=("1/2", "1/20", "1/4", "1/5"), distance="3/5", printed=".50 .05 .25 .20  .600",
        reported="huggingface/transformers#28508, vllm-project/vllm-ascend#13766",
    ),
    Fault(
        "residual of draft minus target", rule(token_rule(rest=rules.upside_down)),
        law=("1/2", "1/20", "1/4", "1/5"), distance="3/5", printed=".50 .05 .25 .20  .600",
    ),
    Fault(
        "residual from the next target row", rule(token_rule(rest_at=1)),
        law=("1/10", "1/20", "1/4", "3/5"), distance="3/5", printed=".10 .05 .25 .60  .600",
    ),
    Fault(
        "acceptance against the next target row", rule(token_rule(accept_at=1)),
        law=("1/20", "3/5", "3/20", "1/5"), distance="1/5", printed=".05 .60 .15 .20  .200",
    ),
    Fault(
        "softmax of the residual", rule(token_rule(rest=rules.softmaxed)),
        law=tuple(
            m + 0.6 * w / sum(_SOFTMAX) for m, w in zip([0.1, 0.05, 0.25, 0.0], _SOFTMAX, strict=True)
        ),
        distance=(1.2 + 0.6 * exp(0.05)) / sum(_SOFTMAX) - 0.05, printed=".225 .267 .382 .125  .333",
        reported="huggingface/transformers#28508",
    ),
    Fault(
        "residual of absolute differences", rule(token_rule(rest=rules.absolute)),
        law=("3/10", "13/40", "11/40", "1/10"), distance="3/10", printed=".30 .325 .275 .10  .300",
    ),
    Fault(
        "argmax draft with the soft law", wrong_draft(drafts.argmax_with_soft_law),
        law=("1/5", "11/15", "1/15", "0"), distance="7/30", printed=".20 .733 .067 0  .233",
        reported="huggingface/transformers#32867, #30778, jaymody/speculative-sampling#3, "
        "apple/ml-recurrent-drafter#6, antirez/ds4#482",
    ),
    Fault(
        "draft sampled raw, ratio with its two best", wrong_draft(drafts.raw_but_declared_warped(top_k(2))),
        law=("3/40", "1/2", "9/40", "1/5"), distance="1/5", printed=".075 .50 .225 .20  .200",
        reported="mlx-node/mlx-node#11",
    ),
    Fault(
        "rejected: sampled from the target", rule(token_rule(rest=rules.target_itself)),
        law=("4/25", "41/100", "43/100", "0"), distance="19/100", printed=".16 .41 .43 0  .190",
        reported="claim C14",
    ),
    Fault(
        "typical acceptance, epsilon .3", rule(verify.typical),
        law=("0", "3/4", "1/4", "0"), distance="3/20", printed="0 .75 .25 0  .150",
        reported="claim C12, lossy by design",
    ),
    Fault(
        "accepted by target over its maximum", rule(token_rule(accept=rules.share_of_the_largest)),
        law=("1/12", "1051/1440", "269/1440", "0"), distance="187/1440", printed=".083 .73 .187 0  .130",
        reported="1bit-MONSTER/1bit-MONSTER#637",
    ),
    Fault(
        "target at temperature 2 for 1", target_warped(temperature(2)),
        law=tuple(root / sum(_ROOTS) for root in _ROOTS), distance=0.6 - _ROOTS[1] / sum(_ROOTS),
        printed=".193 .473 .334 0  .127", reported="vllm-project/vllm#9834, #10198",
    ),
    Fault(
        "draft sampled from its two best, declared raw",
        wrong_draft(drafts.warped_but_declared_raw(top_k(2))),
        law=("2/15", "22/45", "17/45", "0"), distance="1/9", printed=".133 .489 .378 0  .111",
        reported="huggingface/transformers#47932",
    ),
    Fault(
        "sampled draft dropped when improbable", wrong_draft(drafts.dropped_when_improbable),
        law=("1/8", "31/60", "43/120", "0"), distance="1/12", printed=".125 .517 .358 0  .083",
        reported="ikawrakow/ik_llama.cpp#1820, vllm-project/vllm#35301, ggml-org/llama.cpp#27694",
    ),
    Fault(
        "draft and residual share one race", rule(rules.one_race_for_draft_and_residual),
        law=("1/10", "471/740", "39/148", "0"), distance="27/740", printed=".100 .637 .264 0  .037",
        reported="vllm-project/vllm#47386, #54282, local-inference-lab/vllm#653, #211",
    ),
    Fault(
        "only the target's argmax accepted, else a target sample",
        rule(token_rule(accept=rules.if_best, rest=rules.target_itself)),
        law=("19/200", "31/50", "57/200", "0"), distance="1/50", printed=".095 .62 .285 0  .020",
    ),
    Fault(
        "one uniform for acceptance and residual", rule(rules.one_uniform_for_acceptance_and_residual),
        law=("1/10", "71/120", "37/120", "0"), distance="1/120", printed=".10 .592 .308 0  .008",
    ),
)  # fmt: skip
"""The classical faults, with the law of each on F."""

RULES = (
    Fault("accepted iff more probable", rule(token_rule(accept=rules.if_more_probable)), "1/10", "claim C15"),
    Fault(
        "rejected: sampled from the draft", rule(token_rule(rest=rules.draft_itself)), "13/25",
        "claim C14",
    ),
    Fault("each draft judged on its own", rule(rules.each_on_its_own), "0", "claim C16"),
    Fault(
        "rejected: target without the drafted token", rule(token_rule(rest=rules.without_drafted)), "49/300",
        "right for a certain draft only",
    ),
    Fault("rejected: any token alike", rule(token_rule(rest=rules.uniform)), "2/5", "duoan/TorchCode#16"),
    Fault(
        "residual plus 1e-4", rule(token_rule(rest=rules.with_a_little_everywhere)), "2/7505",
        "multi-path code",
    ),
    Fault(
        "residual clamped at the least float32", rule(token_rule(rest=rules.clamped)), f"3/{3 * 2**125 + 5}",
        "vllm-project/vllm#2336",
    ),
    Fault("rejected: the residual's best token", rule(token_rule(rest=rules.best_of_the_residual)), "1/20"),
    Fault("bonus: the best token", rule(token_rule(bonus=rules.the_best_bonus)), "0"),
    Fault(
        "1e-10 added to the denominator", rule(token_rule(accept=rules.ratio_over_a_little_more)),
        "1/50000000010",
    ),
    Fault("uniforms of eight bits", rule(token_rule(accept=rules.ratio_in_eight_bits)), "1/640"),
    Fault("residual not normalised", rule(token_rule(rest=rules.not_normalised)), "6/25"),
    Fault(
        "residual in half precision", rule(token_rule(rest=rules.in_half_precision)), "23/196580",
        "vllm-project/vllm#46665",
    ),
    Fault(
        "residual in single precision", rule(token_rule(rest=rules.in_single_precision)), "7/1073741860",
        "vllm-project/vllm#46665",
    ),
    Fault(
        "all rows one position late", rule(token_rule(accept_at=1, rest_at=1)), "4/5",
        "feifeibear/LLMSpeculativeSampling#29",
    ),
    Fault(
        "draft law of the next position", rule(token_rule(draft_at=1)), "0",
        "survives the engines' own tests",
    ),
    Fault("draft law of the position before", rule(token_rule(draft_at=-1)), "0"),
    Fault("first draft never compared", rule(rules.first_draft_unseen), "3/5", "ohdearquant/lattice#243"),
    Fault(
        "argmax at every position but the bonus", rule(rules.greedy_but_for_the_bonus), "2/5",
        "ROCm/ATOM#2318",
    ),
    Fault("bonus drawn from the draft", rule(token_rule(bonus=rules.bonus_from_the_draft)), "0"),
    Fault("bonus from the row before", rule(token_rule(bonus=rules.bonus_from_the_row_before)), "0"),
    Fault("bonus from a residual", rule(token_rule(bonus=rules.bonus_from_the_residual)), "0"),
    Fault("one more token after a rejection", rule(rules.one_more_after_a_rejection), "0"),
    Fault(
        "match: another sample after a mismatch", rule(rules.match_that_draws_again), "63/1000",
        "EricLBuehler/mistral.rs#1027 but for this is exact",
    ),
    Fault("match: the mismatched draft is kept", rule(rules.match_that_keeps_the_draft), "3/5"),
    Fault(
        "one uniform for draft and acceptance", rule(rules.one_uniform_for_draft_and_acceptance), "1/10",
        "vllm-project/vllm#47386",
    ),
    Fault(
        "one uniform for acceptance and bonus", rule(rules.one_uniform_for_acceptance_and_bonus), "0",
        "vllm-project/vllm#47386",
    ),
    Fault(
        "one uniform for all positions", rule(rules.one_uniform_for_all_positions), "0",
        "vllm-project/vllm#47386",
    ),
    Fault("ratio of the joint probabilities", rule(rules.ratio_of_joint_probabilities), "0"),
    Fault("residual of the first position", rule(rules.residual_of_the_first_position), "0"),
    Fault(
        "length of the draft by the uniform of the test", rule(rules.length_by_the_uniform_of_the_test),
        "1/20",
    ),
    Fault("lenience 1/2", rule(verify.lenient), "1/10", "lossy by design"),
)  # fmt: skip
"""Other wrong rules."""

BLOCKS = (
    Fault(
        "block: products of uniforms, residual of the token",
        rule(
            block_rule(
                accept=blocks.weights_themselves, choose=blocks.by_products_of_uniforms,
                rest=blocks.left_of_the_token,
            )
        ),
        0.0, "vllm-project/vllm-ascend#7807", joint=0.21874839677880564,
    ),
    Fault(
        "block: products of uniforms",
        rule(block_rule(accept=blocks.weights_themselves, choose=blocks.by_products_of_uniforms)),
        0.0, "vllm-project/vllm-ascend#7808", joint=0.20466421378924482,
    ),
    Fault(
        "block: products of uniforms, sampled draft taken as certain",
        rule(
            block_rule(
                weigh=blocks.as_if_certain, accept=blocks.weights_themselves,
                choose=blocks.by_products_of_uniforms, rest=blocks.left_of_a_certain_draft,
            )
        ),
        0.0, "vllm-project/vllm-ascend#7839", joint=0.07779473592859773,
    ),
    Fault(
        "block: draft probabilities 1 in the ratios alone", rule(block_rule(weigh=blocks.as_if_certain)),
        "491/2400", "vllm-project/vllm-ascend#7839", joint="1795/8192",
    ),
    Fault(
        "block: accepted by weight", rule(block_rule(accept=blocks.weights_themselves)), "0", joint="3/32",
    ),
    Fault(
        "block: the last test by the uncapped ratio", rule(block_rule(accept=blocks.last_uncapped)), "0",
        "ZhouYuxuanYX/Hierarchical-Speculative-Decoding, transformers/generation/utils.py", joint="1/16",
    ),
    Fault(
        "block: capped at new maxima only", rule(blocks.capped_at_new_maxima_only), "0",
        "ZhouYuxuanYX/Hierarchical-Speculative-Decoding, algorithm.py", joint="1/4",
    ),
    Fault(
        "block: the first failure ends the search", rule(block_rule(choose=blocks.up_to_the_first_failure)),
        "0", "vllm-project/vllm-ascend#11985, a review", joint="3/20",
    ),
    Fault(
        "block: mass of the residual before", rule(block_rule(accept=blocks.one_position_late)), "0",
        joint="1/24",
    ),
    Fault(
        "block: one uniform for all tests", rule(block_rule(choose=blocks.by_one_uniform)), "0", joint="1/20",
    ),
    Fault(
        "block: residual of the token", rule(block_rule(rest=blocks.left_of_the_token)), "0",
        "vllm-project/vllm-ascend#7807", joint="1/64",
    ),
    Fault(
        "block: residual plus 1e-4", rule(block_rule(rest=blocks.left_with_a_little_everywhere)), "2/7505",
        "multi-path code", joint="106531421/502102520864",
    ),
    Fault("greedy block: nothing carried", rule(blocks.greedy_without_the_carry), "0", joint="1/16"),
    Fault(
        "block: sampled draft dropped when improbable",
        drafting(drafts.dropped_when_improbable, verify.block), "1/12",
        "ikawrakow/ik_llama.cpp#1820, vllm-project/vllm#35301", joint="15/128",
    ),
    Fault(
        "block: argmax draft with the soft law", drafting(drafts.argmax_with_soft_law, verify.block), "7/30",
        "huggingface/transformers#32867", joint="11/48",
    ),
)  # fmt: skip
"""Wrong block verification, and wrong drafts under the right one."""

DRAFTS = (
    Fault(
        "soft draft with the argmax law", wrong_draft(drafts.soft_with_argmax_law), "3/10",
        "huggingface/transformers#47932",
    ),
    Fault("sampled draft dropped unless the best", wrong_draft(drafts.dropped_when_not_the_best), "7/60"),
    Fault(
        "draft sampled in bfloat16", wrong_draft(drafts.sampled_in_bfloat16), "1/12291",
        "deepseek-ai/DeepSpec#31",
    ),
    Fault("declared law one token behind", wrong_draft(drafts.declared_one_token_behind), "0"),
    Fault("declared law of the round's start", wrong_draft(drafts.declared_from_the_start_of_the_round), "0"),
    Fault(
        "draft sampled one token behind", wrong_draft(drafts.sampled_one_token_behind), "0",
        "vllm-project/vllm#31944, #52942",
    ),
    Fault(
        "draft sampled from the round's start", wrong_draft(drafts.sampled_from_the_start_of_the_round), "0",
    ),
)  # fmt: skip
"""Other drafts that are not what they are declared to be."""

WARPED_BY = (temperature(0.5), top_k(2), top_p(0.7), min_p(0.3), compose(temperature(0.5), top_p(0.8)))
_WARPED_ON_F = {  # distances in the order of WARPED_BY
    "draft warped, declared raw": ("24/355", "1/9", "1/9", "2/95", "3/50"),
    "draft raw, declared warped": ("14951/254500", "1/5", "1/5", "1/50", "17/80"),
    "target raw, warp asked for": ("21/115", "1/10", "1/10", "1/10", "1/5"),
    "target warped, not asked for": ("21/115", "1/10", "1/10", "1/10", "1/5"),
}
_WARPED = {
    "draft warped, declared raw": lambda warp: wrong_draft(drafts.warped_but_declared_raw(warp)),
    "draft raw, declared warped": lambda warp: wrong_draft(drafts.raw_but_declared_warped(warp)),
    "target raw, warp asked for": target_raw,
    "target warped, not asked for": target_warped,
}

WARPS = tuple(
    Fault(f"{fault}: {warp.name}", _WARPED[fault](warp), distance, "mlx-node/mlx-node#11, z-lab/dflash#74")
    for fault, distances in _WARPED_ON_F.items()
    for warp, distance in zip(WARPED_BY, distances, strict=True)
)
"""Every warp, on one side only."""

GREEDY = (
    Fault(
        "greedy: ties to the last token", greedy_rule(rules.greedy_with_ties_to_the_last), "0",
        "ohdearquant/lattice#284",
    ),
    Fault("greedy: rows one position late", greedy_rule(rules.greedy_one_row_on), "1"),
    Fault(
        "greedy: first draft never compared", greedy_rule(rules.greedy_first_draft_unseen), "19/20",
        "ohdearquant/lattice#243",
    ),
    Fault(
        "greedy: the mismatch is kept", greedy_rule(rules.greedy_that_keeps_the_mismatch), "19/20",
        "vllm-project/vllm#8320",
    ),
    Fault("greedy: the two best accepted", greedy_rule(rules.greedy_among_the_two_best), "1/4"),
    Fault("greedy: the bonus sampled", greedy_rule(rules.greedy_but_for_the_bonus), "0", "antirez/ds4#482"),
    Fault(
        "greedy: ratio of the laws before temperature", greedy_rule(rules.greedy_by_unwarped_ratio), "1/4",
        "jaymody/speculative-sampling#9",
    ),
    Fault("greedy: target sampled", greedy_rule(verify.token), "2/5", "mlx-node/mlx-node#11"),
    Fault("greedy asked to sample", rule(verify.greedy), "2/5"),
)  # fmt: skip
"""Temperature 0: the law to reproduce is the target's argmax."""

DEEP = {
    Fault("drafts behind the fourth never judged", rule(rules.four_judged), "0", "HabanaAI/vllm-fork#1435"): {
        "vocab_sizes": (3, 3), "num_draft_tokens": (5, 5),
    },
    Fault("target lost the third-last token", target_forgets(3), "0", "vllm-project/vllm-metal#716"): {
        "vocab_sizes": (3, 3), "num_draft_tokens": (4, 4),
    },
    Fault("greedy without drafts", rule(rules.greedy_without_drafts), "0", "vllm-project/vllm#4724"): {
        "vocab_sizes": (3, 3), "num_draft_tokens": (0, 0),
    },
    Fault("residual among the five best", rule(token_rule(rest=rules.among_the_five_best)), "0"): {
        "vocab_sizes": (8, 8), "num_draft_tokens": (1, 1),
    },
}  # fmt: skip
"""Faults of longer drafts or contexts, of no drafts, of larger vocabularies; and where to look for them."""

ONE_ROUND = (*CLASSIC, *RULES, *BLOCKS, *DRAFTS, *WARPS, *GREEDY, *DEEP)
