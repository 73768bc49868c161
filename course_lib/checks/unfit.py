"""What ``build`` raises for an answer of the wrong make."""


class Unfit(ValueError):
    """An answer that nothing can be built from: its text says what it is, ``next`` what to hand over instead."""

    def __init__(self, what: str, next: str):
        super().__init__(what)
        self.next = next
