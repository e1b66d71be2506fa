package omnigraph.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsRead;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.read.ScanBuilder;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** A table of the Python data source that hands it the options of the catalog with those of each statement. */
public class GraphTable implements Table, SupportsRead, SupportsWrite {
  private Table table;
  private String name;
  private Map options;

  public GraphTable(Table table, String name, Map options) {
    this.table = table;
    this.name = name;
    this.options = options;
  }

  public String name() {
    return name;
  }

  public StructType schema() {
    return table.schema();
  }

  public Set capabilities() {
    return table.capabilities();
  }

  public ScanBuilder newScanBuilder(CaseInsensitiveStringMap own) {
    return ((SupportsRead) table).newScanBuilder(with(own));
  }

  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    return ((SupportsWrite) table).newWriteBuilder(new GraphWriteInfo(info, with(info.options())));
  }

  private CaseInsensitiveStringMap with(CaseInsensitiveStringMap own) {
    Map all = new HashMap(options);
    all.putAll(own.asCaseSensitiveMap());
    return new CaseInsensitiveStringMap(all);
  }
}
