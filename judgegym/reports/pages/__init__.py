"""What all HTML pages share: a document that needs no network and runs no text of a model."""
