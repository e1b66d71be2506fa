"""Tasks of bulk work: what one does, the threads or the Spark session that run many, their tables, stages and progress."""
