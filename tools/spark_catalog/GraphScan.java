package omnigraph.spark;

import java.util.Map;
import java.util.OptionalLong;
import org.apache.spark.sql.connector.read.Batch;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.Statistics;
import org.apache.spark.sql.connector.read.SupportsReportStatistics;
import org.apache.spark.sql.execution.datasources.v2.python.PythonScan;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** Columns of a table as the Python source reads them. Its number of rows lets Spark choose how it joins. */
public class GraphScan implements Scan, SupportsReportStatistics, Statistics {
  private String name;
  private StructType schema;
  private Map options;
  private long rows;

  public GraphScan(String name, StructType schema, Map options, long rows) {
    this.name = name;
    this.schema = schema;
    this.options = options;
    this.rows = rows;
  }

  public StructType readSchema() {
    return schema;
  }

  public Batch toBatch() {
    CaseInsensitiveStringMap own = new CaseInsensitiveStringMap(options);
    // To the source every column may be null, and is one of its own.
    StructType read = new StructType();
    StructField[] fields = schema.fields();
    for (int i = 0; i < fields.length; i++) read = read.add(fields[i].name(), fields[i].dataType());
    return new PythonScan(Catalog.source(), Catalog.SOURCE, read, own, new Filter[0]).toBatch();
  }

  public String description() {
    StringBuilder text = new StringBuilder(name).append(" ").append(schema.simpleString());
    String[] told = new String[] {"revision", "filter", "limit", "count"};
    for (int i = 0; i < told.length; i++)
      if (options.containsKey(told[i])) text.append(", ").append(told[i]).append(": ").append(options.get(told[i]));
    return text.toString();
  }

  public Statistics estimateStatistics() {
    return this;
  }

  public OptionalLong sizeInBytes() {
    return rows < 0 ? OptionalLong.empty() : OptionalLong.of(rows * schema.defaultSize());
  }

  public OptionalLong numRows() {
    return rows < 0 ? OptionalLong.empty() : OptionalLong.of(rows);
  }
}
