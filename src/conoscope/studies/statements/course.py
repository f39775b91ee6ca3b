"""Statements of source 002: the course's practical on self-attention. It prints no results; questions ask for comparisons."""

from conoscope.studies.statements.base import Statement, of

COURSE, LAYERS, POSITIONS = "course-family", "course-layers", "course-positions"

STATEMENTS = (
    Statement(
        "002",
        "introduction",
        "Attention that is repeated over layers gives a better representation in the end.",
        untestable="no claim asks it; course-layers has the accuracies of one to six layers",
    ),
    Statement(
        "002",
        "introduction, on the weights",
        "Dividing scores by √d keeps the size of gradients the same, whatever the dimension.",
        of("course-scale", "alike"),
    ),
    Statement(
        "002",
        "introduction, equation 1",
        "The next layer's vector is the mean of the values, weighed by attention.",
        untestable="a definition, that of the model `tp9-base`",
    ),
    Statement(
        "002",
        "data",
        "IMDB has 50,000 comments, each positive or negative.",
        untestable="a fact about the data: `conoscope corpus imdb` counts 25,000 of each",
    ),
    Statement(
        "002",
        "question 1",
        "How does self-attention of three layers compare with the mean of word vectors?",
        of(COURSE, "mean", "base"),
    ),
    Statement("002", "section 2", "With many more layers, training gets much worse.", of(LAYERS, "degrades", "degrades-much")),
    Statement(
        "002",
        "section 2",
        "A residual architecture is the remedy for training that gets worse with depth.",
        of(LAYERS, "remedy", "kept"),
    ),
    Statement(
        "002",
        "section 2",
        "The input must often be normalised, for the network to be stable.",
        untestable="every model of the family that has a residual also has a normalisation; none is without",
    ),
    Statement("002", "question 2", "How does the residual model compare with the one before?", of(COURSE, "residual")),
    Statement(
        "002",
        "section 3",
        "Without positions the model has no notion of the order of words.",
        untestable="an identity: tests shuffle the tokens of such a model, and its numbers stay",
    ),
    Statement(
        "002",
        "section 3",
        "Without positions sentiment is hard to tell, since negation has to be understood.",
        of(POSITIONS, "order", "scope", "negation"),
    ),
    Statement(
        "002",
        "question 3, heat map",
        "Products of two sinusoidal positions depend on their distance.",
        untestable="an identity: tests check the form of the matrix, and `conoscope figure positions` draws it",
    ),
    Statement("002", "question 3", "Does the base model do better with positions?", of(COURSE, "positions")),
    Statement(
        "002",
        "section 3, last paragraph",
        "Positions can also be learned instead of computed.",
        of(POSITIONS, "possible"),
    ),
    Statement(
        "002",
        "section 3, last paragraph",
        "Newer models, such as BERT, have relative positions, not absolute ones.",
        untestable="not so: BERT's positions are learned and absolute; relative ones are an option of the models here",
    ),
    Statement(
        "002",
        "section 4",
        "A text can be represented by one learned token at its beginning, from which the class is predicted.",
        untestable="a definition, that of the model `tp9-cls`",
    ),
    Statement("002", "question 4", "How does classifying [CLS] compare with classifying the mean?", of(COURSE, "cls")),
)
