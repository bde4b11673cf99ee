"""Importing this checks the running interpreter and the installed torch."""

from symshapes.versions import check_versions

check_versions("symshapes, which every part imports,")
