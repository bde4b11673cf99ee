"""The lazy side of lowering: tensor values that are not computed yet, views over them, and the builder that turns
them into the loop operations of a `Program`."""
