"""Commands that people type.

Every command is a module function found through `commands.py`, imported only when it is asked for,
so that `replog --help` and the start of brokers stay quick.
"""
