"""The kernel of the tests of pages, in which reads of A conflict; and the step from which they remove a barrier."""

SCHEDULE = "grid.tile = [32, 32], k = 32, stages = 3, order = row, pack = none, mainloop.a.swizzle = <0,3,3>"
GUILTY = "05-atoms/08-simplify"
