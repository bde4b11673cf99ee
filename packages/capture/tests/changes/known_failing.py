"""Programs of the table that are still wrong; each runs, and must be taken from here when it is right."""

KNOWN_FAILING = {
    "weakrefs-callback_is_called",
    "weakrefs-created_within",
}
