"""Power cuts: records what a journal does to its disk, builds what a cut may leave, and opens that (S3, S5-S7)."""
