"""Plans (`--plan`): a dry run over a sample of the rows, without any endpoint."""
