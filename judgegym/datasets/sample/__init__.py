"""`--responses_per_prompt`: a policy is asked for responses first, which are judged like any others."""
