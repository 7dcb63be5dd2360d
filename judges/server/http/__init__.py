"""The HTTP side: routes, callers, bodies, the OpenAPI document and the page."""
