"""Agreement statistics and intervals."""


def percent(share: float, digits: int = 1) -> str:
    """Format a share as a percentage, such as 4.2 %.

    Args:
        share: from 0 to 1.
        digits: after the point.
    """
    return f"{share:.{digits}%}".replace("%", " %")
