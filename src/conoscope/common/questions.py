"""The questions that figures and tables help to answer; a report has a section for each."""

QUESTIONS = {
    "cones": "Do the vectors gather into a cone?",
    "classes": "Does the direction tell the class?",
    "heads": "What do the heads do?",
    "mixing": "What is mixed in?",
    "stream": "What does each layer add?",
    "causes": "What causes the answer?",
    "words": "Which words count?",
    "training": "What does training change?",
    "studies": "Does it come out as published?",
}
"""Each question by its short name, in the order of a report."""
EXPLORED = "explored"
"""Stands for the question of tables that only the explorer draws: reports and differences leave them out."""
