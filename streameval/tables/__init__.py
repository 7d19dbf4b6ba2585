"""Files of rows (parquet, CSV, trec_eval's), read as columns; needs the extra `parquet`."""
