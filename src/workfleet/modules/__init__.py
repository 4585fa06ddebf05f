"""Modules: the values that an application is composed of, and the built-in ones."""
