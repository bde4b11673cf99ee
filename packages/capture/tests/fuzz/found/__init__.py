"""Examples that once gave something else, as short as they can be told: a state, and steps that call and change it."""

from .attributes import ATTRIBUTES
from .calls import CALLS
from .classes import CLASSES
from .containers import CONTAINERS

FOUND = {**ATTRIBUTES, **CALLS, **CLASSES, **CONTAINERS}
