"""Planted bugs: a traced kernel is rewritten as a likely mistake would have written it.

``mistakes_in`` lists the mistakes that can be made in a traced function, ``stand_in`` returns the function with one of
them. The kernel's source is not needed, so a kernel that has come out of the grader's box can be planted too.
"""

from course_lib.checks.planting.catalogue import KINDS, mistakes_in
from course_lib.checks.planting.mistake import Mistake, Place
from course_lib.checks.planting.real import Shown, chosen, shown_by
from course_lib.checks.planting.stand_in import stand_in

__all__ = ["KINDS", "Mistake", "Place", "Shown", "chosen", "mistakes_in", "shown_by", "stand_in"]
