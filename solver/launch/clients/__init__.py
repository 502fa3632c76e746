"""The frameworks' own parsers and classes, each run as a script in an environment that has them.

A script knows nothing of this project: it reads a JSON list of entries on stdin, and prints as its
last line a JSON list with the faults of each, empty where the framework takes it as it was meant.
"""
