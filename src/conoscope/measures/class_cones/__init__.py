"""class_cones: one direction for each class, and what lies around it."""

from conoscope.measures.class_cones import cosines, nearest, plane, shown  # noqa: F401  enters them
