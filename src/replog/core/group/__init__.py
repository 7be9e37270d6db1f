"""Consumer groups as pure rules: who is a member, who waits for what, what must be stored.

Nothing here reads a clock, waits or sends: methods take `now_ms` and return what is to be done.
"""
