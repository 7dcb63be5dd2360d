"""Yes/no questions about an answer, each settled by votes."""
