package omnigraph.spark;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.DeltaBatchWrite;
import org.apache.spark.sql.connector.write.DeltaWrite;
import org.apache.spark.sql.connector.write.DeltaWriteBuilder;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.PhysicalWriteInfo;
import org.apache.spark.sql.connector.write.WriterCommitMessage;
import org.apache.spark.sql.execution.datasources.v2.python.PythonWrite;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The rows of one statement as a load: whole rows and ids with the flag that they go, in the mode merge; or ids alone, in the mode delete. */
public class RowWrite implements DeltaWriteBuilder, DeltaWrite, DeltaBatchWrite {
  private static final String DELETE_FLAG = "_delete";
  private StructType schema;
  private BatchWrite load;

  public RowWrite(LogicalWriteInfo info, Map options) {
    // A statement that only removes rows has no columns.
    boolean isRemoval = info.schema().length() == 0;
    Map own = new HashMap(options);
    own.put("mode", isRemoval ? "delete" : "merge");
    StructType ids = new StructType().add("id", DataTypes.StringType);
    schema = isRemoval ? ids : info.schema().add(DELETE_FLAG, DataTypes.BooleanType);
    GraphWriteInfo rows = new GraphWriteInfo(info, new CaseInsensitiveStringMap(own), schema);
    load = new PythonWrite(Catalog.source(), Catalog.SOURCE, rows, false).toBatch();
  }

  public DeltaWrite build() {
    return this;
  }

  public DeltaBatchWrite toBatch() {
    return this;
  }

  public DeltaWriterFactory createBatchWriterFactory(PhysicalWriteInfo info) {
    return new RowWriterFactory(load.createBatchWriterFactory(info), schema.length(), schema.fieldIndex("id"));
  }

  public boolean useCommitCoordinator() {
    return load.useCommitCoordinator();
  }

  public void commit(WriterCommitMessage[] messages) {
    load.commit(messages);
  }

  public void abort(WriterCommitMessage[] messages) {
    load.abort(messages);
  }
}
