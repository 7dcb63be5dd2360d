"""Human labels: the file that holds them, and the results that they correct."""
