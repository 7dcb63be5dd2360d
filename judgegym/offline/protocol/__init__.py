"""The wire of the stand-in: requests that are parsed and checked, answers as a whole or as a stream."""
