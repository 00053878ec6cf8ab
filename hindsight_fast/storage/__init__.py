"""Folders that are whole or not there: manifests, atomic publishing, checksums, mapped arrays.

An artefact is a folder of immutable files and a `manifest.json` that names each with its size and
hashes. It is written in a hidden sibling, `.NAME.partial`, under a lock, flushed to disk, and
renamed into place; what a killed process leaves there is wiped by the next, or gone on with where
the work takes days (`publish_resumable`). A reader that has mapped the files of an artefact keeps
them when a new one takes its place.

What is written through a mapping has its space taken before, so that a full disk is an error. What
is read through one can't be guarded so: where a network drive goes away under a mapped file, the
system ends the process (SIGBUS), and no code here learns of it. Nothing half-made is published
then, and work that is kept goes on once the drive is back.

The files that a manifest names lie directly in the folder and are regular files: a symbolic link
among them is refused, since what it points at could change under a mapping. The folder itself
may be reached through links.
"""

from hindsight_fast.storage._arrays import ArrayWriter, create_array, map_array
from hindsight_fast.storage._files import sample_hash, storage_errors
from hindsight_fast.storage._kept import flushed_facts, is_whole
from hindsight_fast.storage._manifests import (
    MAX_FILES,
    FileFacts,
    Manifest,
    check_file,
    kind_of,
    open_folder,
    open_with,
    read_manifest,
    verify_folder,
)
from hindsight_fast.storage._moving import remove_artefact
from hindsight_fast.storage._parts import Parts, working_parts
from hindsight_fast.storage._publishing import (
    Staging,
    existing,
    link_artefact,
    link_file,
    link_known,
    other_than,
    prepare,
    publish,
    publish_file,
    refuse_inside,
    working_folder,
)
from hindsight_fast.storage._resuming import (
    Piece,
    Target,
    Unfinished,
    link_unfinished,
    publish_resumable,
    refuse_running,
    unfinished,
)
from hindsight_fast.storage._rows import RowFile
from hindsight_fast.storage._stepwise import Steps, publish_stepwise
from hindsight_fast.storage._user import (
    full_hash_once,
    home,
    is_trusted,
    private_folder,
    private_path,
    trust,
)

__all__ = [
    "MAX_FILES",
    "ArrayWriter",
    "FileFacts",
    "Manifest",
    "Parts",
    "Piece",
    "RowFile",
    "Staging",
    "Steps",
    "Target",
    "Unfinished",
    "check_file",
    "create_array",
    "existing",
    "flushed_facts",
    "full_hash_once",
    "home",
    "is_trusted",
    "is_whole",
    "kind_of",
    "link_artefact",
    "link_file",
    "link_known",
    "link_unfinished",
    "map_array",
    "open_folder",
    "open_with",
    "other_than",
    "prepare",
    "private_folder",
    "private_path",
    "publish",
    "publish_file",
    "publish_resumable",
    "publish_stepwise",
    "read_manifest",
    "refuse_inside",
    "refuse_running",
    "remove_artefact",
    "sample_hash",
    "storage_errors",
    "trust",
    "unfinished",
    "verify_folder",
    "working_folder",
    "working_parts",
]
