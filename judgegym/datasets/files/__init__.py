"""The file that scoring writes: the input's columns untouched, the judge's added; in shards, merged, and read again."""
