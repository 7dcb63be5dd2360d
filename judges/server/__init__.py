"""The reward server: every judge of this project behind HTTP, for any trainer."""
