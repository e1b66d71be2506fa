package omnigraph.spark;

import org.apache.spark.sql.connector.catalog.MetadataColumn;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;

/** By which Spark tells the rows apart that a statement changes. */
public class RowId implements MetadataColumn {
  public static final String NAME = "_id";

  public String name() {
    return NAME;
  }

  public DataType dataType() {
    return DataTypes.StringType;
  }

  public boolean isNullable() {
    return false;
  }
}
