"""The HTTP around the answers: media types, framing, encodings, request ids, connections."""
