package omnigraph.spark;

import java.util.Optional;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What Spark says of a write, with other options and columns. */
public class GraphWriteInfo implements LogicalWriteInfo {
  private LogicalWriteInfo info;
  private CaseInsensitiveStringMap options;
  private StructType schema;

  public GraphWriteInfo(LogicalWriteInfo info, CaseInsensitiveStringMap options, StructType schema) {
    this.info = info;
    this.options = options;
    this.schema = schema;
  }

  public CaseInsensitiveStringMap options() {
    return options;
  }

  public String queryId() {
    return info.queryId();
  }

  public StructType schema() {
    return schema;
  }

  public Optional rowIdSchema() {
    return info.rowIdSchema();
  }

  public Optional metadataSchema() {
    return info.metadataSchema();
  }
}
