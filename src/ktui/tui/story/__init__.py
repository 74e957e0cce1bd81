"""What a demo adds to the live view: its story, captions and pictures."""
