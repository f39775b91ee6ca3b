"""class_cones: one direction for each class, and what lies around it."""
