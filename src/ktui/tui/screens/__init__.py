"""The screens of the app: a file each, or a folder for the larger ones."""
