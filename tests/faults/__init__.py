"""Faults must fail: each is built here, and the library's own checks have to report it.

    table.py      the named faults of one round, with their exact distances on fixture F
    setups.py     fixture F, and what a fault of one round is
    rules.py      wrong verifiers that judge token by token
    blocks.py     wrong verifiers that judge blocks
    trees.py      wrong verifiers of trees, trees that are not what they are declared to be
    tree_table.py the named faults of trees
    drafts.py     wrong drafters
    loops.py      the named wrong loops
    checks.py     what a loop has to satisfy
    oracles.py    the named wrong caches, penalties and grammars
    samplers.py   the named wrong samplers, and seeds
    allowed.py    what looks like a fault and is none: everything here has to pass

Each `test_*.py` runs a table through the check that must see it, and the right code through the same check.
Reports from the field are named as owner/repository#number.
"""
