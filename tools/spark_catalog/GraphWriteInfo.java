package omnigraph.spark;

import java.util.Optional;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What Spark says of a write, with other options. */
public class GraphWriteInfo implements LogicalWriteInfo {
  private LogicalWriteInfo info;
  private CaseInsensitiveStringMap options;

  public GraphWriteInfo(LogicalWriteInfo info, CaseInsensitiveStringMap options) {
    this.info = info;
    this.options = options;
  }

  public CaseInsensitiveStringMap options() {
    return options;
  }

  public String queryId() {
    return info.queryId();
  }

  public StructType schema() {
    return info.schema();
  }

  public Optional rowIdSchema() {
    return info.rowIdSchema();
  }

  public Optional metadataSchema() {
    return info.metadataSchema();
  }
}
