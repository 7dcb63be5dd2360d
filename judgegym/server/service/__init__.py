"""What a request to the reward server means, with no framework: routes, tokens, bodies, errors, the page."""
