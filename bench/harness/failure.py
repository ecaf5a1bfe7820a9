"""What can go wrong, said with its remedy."""


class Failure(Exception):
    """The whole run cannot go on."""

    def __init__(self, what, remedy):
        super().__init__(f"{what}\n  remedy: {remedy}")


class MeasurementFailed(Exception):
    """One engine could not do one piece of work; the others can go on."""
