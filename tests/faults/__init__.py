"""Faults must fail: each is built here, and the library's own checks have to report it.

    setups.py     fixture F, and what a fault is: the wrong thing, and its law on F
    table.py      the named faults of one round, with their exact distances on fixture F
    setups.py     fixture F, and what a fault of one round is
    rules.py      wrong verifiers
    drafts.py     wrong drafters
    allowed.py    what looks like a fault and is none: everything here has to pass

Each `test_*.py` runs one table through the check that must see it, and the right code through the same check.
Reports from the field are named as owner/repository#number.
"""
