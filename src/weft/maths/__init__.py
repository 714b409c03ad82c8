"""The maths of the field as small pure functions."""
