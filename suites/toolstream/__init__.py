"""Tool calls in a stream: their fragments, what these add up to, and what comes before and after."""
