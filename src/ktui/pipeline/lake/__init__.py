"""The lake: Parquet files by table and cluster, the manifest, and the schemas of the tables."""
