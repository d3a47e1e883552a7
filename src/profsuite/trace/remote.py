"""Folders behind fsspec URLs (``s3://bucket/run/``): which traces lie in them."""

from __future__ import annotations

from profsuite.errors import TraceError

ENDINGS = (".json", ".json.gz", ".trace.gz")
MOST_FILES = 100_000


def traces_at(url: str) -> list[str] | None:
    """URLs of the traces in a folder and the folders in it, by their names; null where the URL is no folder.

    ``TraceError`` where there are none or the folder cannot be listed.
    """
    import fsspec

    if url.startswith(("http://", "https://")):
        return None  # it has no folders
    try:
        fs, path = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError):
        return None  # reading it says what is missing
    try:
        if not fs.isdir(path):
            return None
        found = sorted(name for name in fs.find(path, maxdepth=4) if name.endswith(ENDINGS))
    except Exception as error:  # every file system has its own
        raise TraceError(f"{url}: cannot be listed: {type(error).__name__}: {error}") from error
    found = [name for name in found if not any(part.startswith(".") for part in name[len(path) :].split("/"))]
    if not found:
        raise TraceError(f"{url}: holds no trace (looked for .json and .json.gz files)")
    if len(found) > MOST_FILES:
        raise TraceError(f"{url}: holds {len(found):,} files, more than {MOST_FILES:,}; name a folder within it")
    return [str(fs.unstrip_protocol(name)) for name in found]
