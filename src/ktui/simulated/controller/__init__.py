"""What KRaft's controller has on record and how it decides, of several versions."""
