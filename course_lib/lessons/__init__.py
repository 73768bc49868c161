"""What each lesson's exercises demand: a folder ``lesson_NN`` for each lesson. ``checks`` finds them by their names."""
