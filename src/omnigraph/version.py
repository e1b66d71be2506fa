"""The version of the package and of the code."""

VERSION = "0.1.0"
