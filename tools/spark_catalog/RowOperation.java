package omnigraph.spark;

import java.util.Map;
import org.apache.spark.sql.connector.expressions.Expressions;
import org.apache.spark.sql.connector.expressions.NamedReference;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperation;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.SupportsDelta;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** One UPDATE, DELETE or MERGE: Spark finds the rows that change, and says what becomes of each by its id. */
public class RowOperation implements RowLevelOperationBuilder, SupportsDelta {
  private RowLevelOperation.Command command;
  private GraphTable table;
  private Map options;

  public RowOperation(RowLevelOperation.Command command, GraphTable table, Map options) {
    this.command = command;
    this.table = table;
    this.options = options;
  }

  public RowLevelOperation build() {
    return this;
  }

  public RowLevelOperation.Command command() {
    return command;
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap own) {
    return table.newScanBuilder(own);
  }

  public NamedReference[] rowId() {
    return new NamedReference[] {Expressions.column(RowId.NAME)};
  }

  public DeltaWriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return new RowWrite(info, options);
  }
}
