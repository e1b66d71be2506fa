package omnigraph.spark;

import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;

/** What is done with branches and tags by CALL; the answer is one row: what came of it, and the commit that it is about. */
public class GraphProcedure implements UnboundProcedure, BoundProcedure, LocalScan {
  static final String[] NAMES = new String[] {"merge", "create_branch", "delete_branch", "create_tag"};
  private Catalog catalog;
  private String name;
  private InternalRow[] rows;

  public GraphProcedure(Catalog catalog, String name) {
    this.catalog = catalog;
    this.name = name;
  }

  public String name() {
    return name;
  }

  public BoundProcedure bind(StructType arguments) {
    return this;
  }

  public boolean isDeterministic() {
    return false;
  }

  public ProcedureParameter[] parameters() {
    ProcedureParameter graph = ProcedureParameter.in("graph", DataTypes.StringType).build();
    ProcedureParameter what = ProcedureParameter.in(name.equals("create_tag") ? "tag" : "branch", DataTypes.StringType).build();
    if (name.equals("delete_branch")) return new ProcedureParameter[] {graph, what};
    String where = name.equals("merge") ? "into" : "revision";
    DataType type = DataTypes.StringType;
    return new ProcedureParameter[] {graph, what, ProcedureParameter.in(where, type).defaultValue("'main'").build()};
  }

  public Iterator call(InternalRow arguments) {
    String where = arguments.numFields() > 2 ? arguments.getString(2) : null;
    String[] answer = catalog.call(name, arguments.getString(0), arguments.getString(1), where);
    GraphProcedure done = new GraphProcedure(catalog, name);
    Object[] values = new Object[] {UTF8String.fromString(answer[0]), UTF8String.fromString(answer[1])};
    done.rows = new InternalRow[] {new GenericInternalRow(values)};
    return Collections.singleton(done).iterator();
  }

  public StructType readSchema() {
    return new StructType().add("outcome", DataTypes.StringType).add("commit", DataTypes.StringType);
  }

  public InternalRow[] rows() {
    return rows;
  }

  public String description() {
    return name;
  }
}
