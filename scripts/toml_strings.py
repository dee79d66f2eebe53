"""Strings of the TOML files that the scripts beside this one write."""

import textwrap

WIDTH = 100
INDENT = "    "


def string(key, text):
    """The lines of a key with a text, which is broken where it is beyond the width."""
    line = f'{key} = "{text}"'
    if len(line) <= WIDTH:
        return [line]
    # A line of a multi-line string ends with " \\" and the last one with three quotation marks.
    parts = textwrap.wrap(text, WIDTH - len(INDENT) - 3, break_on_hyphens=False)
    head = [f"{INDENT}{part} \\" for part in parts[:-1]]
    return [f'{key} = """\\', *head, f'{INDENT}{parts[-1]}"""']
