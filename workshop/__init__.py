"""The practice of the course: a chapter with its central functions taken out, and checks that speak to a learner."""


class Problem(Exception):
    """What is wrong and what to do next, for the learner."""
