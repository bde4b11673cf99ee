"""Programs of the table that are still wrong; each runs, and must be taken from here when it is right."""

KNOWN_FAILING = {
    "caches-cleared",
    "caches-cleared_within",
    "caches-effects_are_not_repeated",
    "caches-exception_is_not_remembered",
    "caches-identity",
    "caches-information_read",
    "caches-method_of_class",
    "caches-one_caller",
    "caches-recursion",
    "caches-remembered_value_mutated",
    "caches-stays_when_the_body_changes",
    "caches-tensor_argument",
    "caches-types_of_arguments",
    "weakrefs-callback_is_called",
    "weakrefs-created_within",
}
