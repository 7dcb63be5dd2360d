"""When a request is sent again, after which wait, and which accounts no wait helps."""
