"""All errors of the package: each carries its data and a message that says what to do."""

from streameval.events.errors import *  # noqa: F403  the address that users import them from
