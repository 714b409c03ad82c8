"""What is recorded of the environments, how it is stored, and how it is served to the learner."""
