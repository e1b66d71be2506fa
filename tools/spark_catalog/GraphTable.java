package omnigraph.spark;

import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.connector.catalog.SupportsMetadataColumns;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsRowLevelOperations;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.RowLevelOperationBuilder;
import org.apache.spark.sql.connector.write.RowLevelOperationInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * A type of a graph at one commit, or one of the tables about a graph (history, changes, branches), which are only read. The Python
 * data source does the work; it is handed the options of the catalog with those of each statement.
 */
public class GraphTable
    implements Table, SupportsRead, SupportsWrite, SupportsMetadataColumns, SupportsRowLevelOperations {
  private Table table;
  private String name;
  private Map read;
  private Map write;
  private long rows;

  /** `write` are the options of writes, null of a table that is only read; `rows` is how many it has, or -1. */
  public GraphTable(Table table, String name, Map read, Map write, long rows) {
    this.table = table;
    this.name = name;
    this.read = read;
    this.write = write;
    this.rows = rows;
  }

  public String name() {
    return name;
  }

  public StructType schema() {
    return table.schema();
  }

  public Set capabilities() {
    return write == null ? Collections.singleton(TableCapability.BATCH_READ) : table.capabilities();
  }

  /** The id of a row that a statement changes or removes: unlike the column `id`, which an INSERT may leave out, it is never null. */
  public MetadataColumn[] metadataColumns() {
    return write == null ? new MetadataColumn[0] : new MetadataColumn[] {new RowId()};
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap own) {
    return new GraphScanBuilder(name, schema(), with(read, own), rows);
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(with(write, info.options()));
    return ((SupportsWrite) table).newWriteBuilder(new GraphWriteInfo(info, options, info.schema()));
  }

  public RowLevelOperationBuilder newRowLevelOperationBuilder(RowLevelOperationInfo info) {
    if (write == null) throw new UnsupportedOperationException(name + " is only read");
    Map changed = with(write, info.options());
    changed.put("if_commit", read.get("revision"));
    return new RowOperation(info.command(), this, changed);
  }

  private static Map with(Map options, CaseInsensitiveStringMap own) {
    Map all = new HashMap(options);
    all.putAll(own.asCaseSensitiveMap());
    return all;
  }
}
