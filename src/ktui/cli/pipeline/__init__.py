"""`ktui pipeline`: turn recordings into tables and reports."""
