"""Two threads at once, without a race: the second one comes where the first is in the middle of its work."""

from threading import Thread
from unittest import mock


def in_between(owner, name, first, second, *, after=False):
    """What both functions return, the second called by another thread before (or after) `owner.name` runs.

    Where it has to wait for its turn, the first goes on after a moment.
    """
    original, returned = getattr(owner, name), []
    other = Thread(target=lambda: returned.append(second()))

    def comes():
        if not other.ident:
            other.start()
            other.join(0.1)

    def hooked(*args):
        if not after:
            comes()
        result = original(*args)
        comes()
        return result

    with mock.patch.object(owner, name, hooked):
        mine = first()
        other.join()
    return mine, returned[0]
