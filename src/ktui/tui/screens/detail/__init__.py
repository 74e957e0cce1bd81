"""The Detail screen: one partition, replica by replica."""
