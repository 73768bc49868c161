"""What the exercises of each lesson demand, one folder ``lesson_NN`` per lesson. ``checks`` finds them by name."""
