"""Print the scanner's set-up (the groups, columns and keys of ``readers/fields.py``) as C for the harness."""

from __future__ import annotations

from profsuite.trace.readers.fields import POOLS
from profsuite.trace.readers.native import ARG_SPEC, GROUP_SPEC


def main() -> None:
    print("static int set_up(Driver *d) {")
    print(f"    driver_init(d, {len(POOLS)});")
    print("    Tables *t = &d->t;")
    for columns in GROUP_SPEC:
        print(f"    if (!add_group(t, {len(columns)})) return 0;")
        for kind, pool in columns:
            print(f"    add_column(t, {kind}, {pool});")
    for key, group, column, trigger, grid in ARG_SPEC:
        text = "".join(f"\\x{byte:02x}" for byte in key)
        call = f'add_arg(t, (const u8 *)"{text}", {len(key)}, {group}, {column}, {trigger:d}, {grid:d})'
        print(f"    if (!{call}) return 0;")
    print("    return 1;\n}")


if __name__ == "__main__":
    main()
