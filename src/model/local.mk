# Sources of this room.
