"""What is raised for an answer of the wrong make."""


class Unfit(ValueError):
    """An answer that cannot be judged: its text says what it is, ``next`` what to hand over instead."""

    def __init__(self, what: str, next: str):
        super().__init__(what)
        self.next = next
