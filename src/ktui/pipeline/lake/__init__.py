"""The lake: Parquet files by table and cluster, the manifest, and the tables' schemas."""
