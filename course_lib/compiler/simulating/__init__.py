"""How many cycles a program takes: what the simulator is asked, and the rewrites that let it answer."""
