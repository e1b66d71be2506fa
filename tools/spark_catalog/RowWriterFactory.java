package omnigraph.spark;

import org.apache.spark.sql.connector.write.DataWriterFactory;
import org.apache.spark.sql.connector.write.DeltaWriter;
import org.apache.spark.sql.connector.write.DeltaWriterFactory;

/** Travels to the executors. */
public class RowWriterFactory implements DeltaWriterFactory {
  private DataWriterFactory loads;
  private int columns;
  private int id;

  public RowWriterFactory(DataWriterFactory loads, int columns, int id) {
    this.loads = loads;
    this.columns = columns;
    this.id = id;
  }

  public DeltaWriter createWriter(int partition, long task) {
    return new RowWriter(loads.createWriter(partition, task), columns, id);
  }
}
