"""Sizes of lists and memory in a GPU search; tests pass small ones to reach every path."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Room:
    """Rows in a group, and how many groups and rows a query may keep before it counts as undecided."""

    size: int
    groups: int
    rows: int

    @classmethod
    def for_k(cls, k: int) -> Room:
        """Small groups cost more to write and less to read: the more neighbors, the smaller.

        >>> Room.for_k(10)
        Room(size=64, groups=256, rows=64)
        """
        rows = 1 << (2 * k + 31).bit_length()
        if k <= 32:
            return cls(64, 256, rows)
        return cls(32 if k <= 64 else 16, max(512, 4 * rows), rows)


@dataclass(frozen=True)
class GpuLimits:
    """Sizes of lists and memory.

    Attributes
    ----------
    room : of the first pass; by default, by the number of neighbors.
    wide : groups and rows that a second pass may keep.
    queries_at_once : int
    minima_bytes : of the lowest scores of groups that are held at once.
    free_bytes : memory for the rows; by default, what the GPU reports as free.
    group_size : rows in a group of one class; by default, by the size of the classes.
    most_classes : CUDA numbers no more programs than this in one direction.
    class_bytes : of keys, and of the nearest of each class, that are held at once.
    member_bytes : of scores or distances of the members of classes that are held at once.
    kept_bytes : results by class of up to this size stay on the GPU; larger ones are copied to main memory.
    """

    room: Room | None = None
    wide: int = 4096
    queries_at_once: int = 16384
    minima_bytes: int = 2 << 30
    free_bytes: int | None = None
    group_size: int | None = None
    most_classes: int = 65_535
    class_bytes: int = 4 << 30
    member_bytes: int = 2 << 30
    kept_bytes: int = 1 << 30

    def first_room(self, k: int) -> Room:
        return self.room or Room.for_k(k)

    def wide_room(self, k: int) -> Room:
        room = self.first_room(k)
        return replace(room, groups=self.wide, rows=max(self.wide, room.rows))
