"""A program for spark-submit: reads a type of the graph as a DataFrame, and merges what it computes as one commit."""

import os

from pyspark.sql import SparkSession

import omnigraph as og

spark = SparkSession.builder.appName("ages").getOrCreate()
g = og.open(f"s3://{os.environ['BUCKET']}/graphs/people")
older = g.spark(spark).table("Person").selectExpr("name", "age + 1 AS age").where("age < 5")
receipt = g.load({"Person": older}, mode="merge", once="ages-2026")
print("updated", receipt.total.updated)
