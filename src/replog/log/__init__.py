"""The log on disk: segments, indexes, epoch file and recovery, over the `Disk` port."""
