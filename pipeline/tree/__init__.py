"""The kind `tree`: a beam search over code states, idea -> implement -> sweep -> score -> promote."""
