"""How many cycles a program takes: what the simulator is asked, and the rewrites that make it fit to be asked."""
