"""The stages of a project: a prediction, the judged kernel, the learner's own test, a tuned table, a report."""
