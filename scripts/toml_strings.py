"""Formats strings of the TOML files that the other scripts write."""

import textwrap

WIDTH = 100
INDENT = "    "


def string(key, text):
    """Returns the lines of a key with a text, which is wrapped if it exceeds the width."""
    line = f'{key} = "{text}"'
    if len(line) <= WIDTH:
        return [line]
    # A line of a multi-line string ends with " \\" and the last one with three quotation marks.
    parts = textwrap.wrap(text, WIDTH - len(INDENT) - 3, break_on_hyphens=False)
    head = [f"{INDENT}{part} \\" for part in parts[:-1]]
    return [f'{key} = """\\', *head, f'{INDENT}{parts[-1]}"""']
