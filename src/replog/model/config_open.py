"""Configurations of brokers whose names are open: those of one listener, and of plug-ins.

`listener.name.NAME.ssl.keystore.type` is the `ssl.keystore.type` of one listener, and has its type;
below a mechanism, as in `listener.name.NAME.plain.sasl.jaas.config`, it is the same. Nothing is
known of other names, so they may be secrets.
"""

import re
from typing import Final

from replog.model.config_table import BROKER, ConfigKey
from replog.model.config_values import known_key

# Names that others define under these prefixes are taken as they come.
OPEN_PREFIXES: Final = ("listener.name.", "rlmm.config.", "rsm.config.")
# What is known of a name that nobody knows.
UNKNOWN_KIND: Final = "unknown"

_OF_A_LISTENER = re.compile(r"listener\.name\.[^.]*\.(.*)")
_OF_A_MECHANISM = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)


def base_name(name: str) -> str | None:
    """What `name` sets for one listener; None when it is not of a listener."""
    found = _OF_A_LISTENER.fullmatch(name)
    if found is None:
        return None
    return next((each for each in _OF_A_MECHANISM if found[1].endswith(each)), found[1])


def broker_key(name: str) -> ConfigKey:
    """What is known of a broker's configuration, if its name is open, too. Raises ConfigError."""
    if not name.startswith(OPEN_PREFIXES):
        return known_key(BROKER, name)
    base = BROKER.get(base_name(name) or "")
    kind = UNKNOWN_KIND if base is None else base.kind
    return ConfigKey(name, kind, default=None, read_only=True, effective=False)
