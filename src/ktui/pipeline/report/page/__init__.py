"""The page of a report: text, figures and tables in one HTML file."""
