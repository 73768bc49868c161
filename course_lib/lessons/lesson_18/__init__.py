"""What the exercises of lesson 18 demand: projects of several hours, and three short exercises before them."""

TITLE = "Capstone"
GIVES = "take an operation from its contract to a kernel that is judged, tuned, tested and reported."
NEEDS = (3, 7, 8, 10, 11)
HARDWARE = "You can time your own kernel."
