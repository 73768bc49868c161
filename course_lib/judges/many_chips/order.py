"""What must happen before what in every run of a recorded program, whichever device is ahead.

A device does its own things in order. Across devices only semaphores order anything, and they count: a wait ends when
enough has arrived, whoever sent it. So a signal must come before a wait if, without it and without all that must come
after it, the rest of what can have arrived by then is less than the waits up to this one take. That is applied until
nothing changes any more (a fixpoint). A copy is two events more: its reading, and behind it its writing.
"""

import collections
import dataclasses

from course_lib.judges.many_chips.record import Event, Record, Semaphore


@dataclasses.dataclass(eq=False)
class Order:
    """The events of a record as nodes, with what must come after each of them."""

    nodes: list[tuple[Event, str]] = dataclasses.field(default_factory=list)  # (event, its kind or a part of a copy)
    of: dict[tuple[int, str], int] = dataclasses.field(default_factory=dict)  # (id of an event, kind) -> node
    after: list[int] = dataclasses.field(default_factory=list)  # of each node a bit set of nodes
    signals: dict[Semaphore, list[tuple[int, int]]] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(list)
    )  # of a semaphore (node, amount)
    waits: dict[Semaphore, list[Event]] = dataclasses.field(default_factory=lambda: collections.defaultdict(list))

    def before(self, one: int, other: int) -> bool:
        """Whether node ``one`` comes before node ``other`` in every run."""
        return bool(self.after[one] >> other & 1)

    def node(self, event: Event, kind: str = "") -> int:
        return self.of[id(event), kind or event.kind]


def order_of(record: Record) -> Order:
    """Return what must happen before what in a run of the recorded program."""
    order = Order()
    follows = _own_order(record, order)
    order.after = _closed(follows)
    while _what_semaphores_add(order, follows):
        order.after = _closed(follows)
    return order


def _own_order(record: Record, order: Order) -> list[set[int]]:
    """Make the nodes, and return of each those that directly follow it on its device."""
    follows: list[set[int]] = []

    def new(event: Event, kind: str) -> int:
        order.of[id(event), kind] = len(order.nodes)
        order.nodes.append((event, kind))
        follows.append(set())
        return len(order.nodes) - 1

    for events in record.events:
        last = None
        for event in events:
            node = new(event, event.kind)
            if last is not None:
                follows[last].add(node)
            last = node
            if event.kind == "start":
                reading, writing = new(event, "copy reads"), new(event, "copy writes")
                follows[node].add(reading)
                follows[reading].add(writing)
                order.signals[event.semaphore].append((writing, event.amount))
                if event.send_semaphore:
                    order.signals[event.send_semaphore].append((reading, event.amount))
            elif event.kind == "signal":
                order.signals[event.semaphore].append((node, event.amount))
            elif event.kind == "wait":
                order.waits[event.semaphore].append(event)
    if not record.has_barrier_of_its_own:  # the compiler puts one there: all enter before any goes on
        for one in record.events:
            for other in record.events:
                if len(other) > 1:
                    follows[order.node(one[0])].add(order.node(other[1]))
    return follows


def _what_semaphores_add(order: Order, follows: list[set[int]]) -> bool:
    """Add to ``follows`` the signals without which a wait cannot end; return whether there are new ones."""
    new = False
    for semaphore, waits in order.waits.items():
        taken = 0
        for wait in map(order.node, waits):
            taken += order.nodes[wait][0].amount
            can = [(signal, amount) for signal, amount in order.signals[semaphore] if not order.before(wait, signal)]
            for signal, _ in can:
                if order.before(signal, wait):
                    continue
                rest = sum(amount for other, amount in can if other != signal and not order.before(signal, other))
                if rest < taken:
                    follows[signal].add(wait)
                    new = True
    return new


def _closed(follows: list[set[int]]) -> list[int]:
    """Return all nodes that come after each node, as a bit set: depth first, each node once."""
    after, done = [0] * len(follows), [False] * len(follows)
    for root in range(len(follows)):
        stack = [(root, False)]
        while stack:
            node, leaving = stack.pop()
            if leaving:
                for later in follows[node]:
                    after[node] |= (1 << later) | after[later]
            elif not done[node]:
                done[node] = True
                stack.append((node, True))
                stack += [(later, False) for later in follows[node] if not done[later]]
    return after
