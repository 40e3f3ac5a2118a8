"""A random search for a way to make a build wrong, or to make it do something twice."""
