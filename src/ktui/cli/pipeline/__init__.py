"""`ktui pipeline`: recordings into tables and reports."""
