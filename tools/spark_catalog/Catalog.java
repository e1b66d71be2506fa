package omnigraph.spark;

import java.time.Instant;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.ProcedureCatalog;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/**
 * The graphs below a root as a catalog of Spark: `og.people.Person` is a type of a graph, `og.people.review.Person` that type on a
 * branch. Everything is asked of the Python data source, which answers a question for names with a schema that has them as columns.
 */
public class Catalog implements TableCatalog, SupportsNamespaces, ProcedureCatalog {
  static final String SOURCE = "omnigraph";
  private static final String WAP_BRANCH = "spark.wap.branch";
  private String name;
  private Map options;

  public void initialize(String name, CaseInsensitiveStringMap options) {
    this.name = name;
    this.options = new HashMap(options.asCaseSensitiveMap());
  }

  public String name() {
    return name;
  }

  public String[] defaultNamespace() {
    return new String[0];
  }

  public String[][] listNamespaces() {
    return below(new String[0], names("graphs", new String[0]));
  }

  public String[][] listNamespaces(String[] namespace) throws NoSuchNamespaceException {
    if (namespace.length == 0) return listNamespaces();
    return namespace.length == 1 ? below(namespace, existing("branches", namespace)) : new String[0][];
  }

  public boolean namespaceExists(String[] namespace) {
    try {
      loadNamespaceMetadata(namespace);
      return true;
    } catch (NoSuchNamespaceException missing) {
      return false;
    }
  }

  public Map loadNamespaceMetadata(String[] namespace) throws NoSuchNamespaceException {
    existing("types", namespace);
    return new HashMap();
  }

  public Identifier[] listTables(String[] namespace) throws NoSuchNamespaceException {
    String[] types = existing("types", namespace);
    Identifier[] tables = new Identifier[types.length];
    for (int i = 0; i < types.length; i++) tables[i] = Identifier.of(namespace, types[i]);
    return tables;
  }

  public Table loadTable(Identifier table) throws NoSuchTableException {
    return load(table, null, null);
  }

  public Table loadTable(Identifier table, String version) throws NoSuchTableException {
    return load(table, "revision", version);
  }

  public Table loadTable(Identifier table, long microseconds) throws NoSuchTableException {
    long seconds = Math.floorDiv(microseconds, 1000000L);
    return load(table, "as_of", Instant.ofEpochSecond(seconds, Math.floorMod(microseconds, 1000000L) * 1000L).toString());
  }

  /** A type at one commit: every scan of the table reads that one. Or a table about the graph, which is read as it is. */
  private Table load(Identifier table, String option, String value) throws NoSuchTableException {
    Map read = address(table.namespace());
    String branch = SQLConf.get().getConfString(WAP_BRANCH, "");
    boolean isAside = !branch.isEmpty() && option == null && table.namespace().length == 1;
    Map write = new HashMap(read);
    if (isAside) {
      read.put("wap", branch);
      write.put("branch", branch);
      write.put("from", "main");
    }
    if (option != null) read.put(option, value);
    Map asked = new HashMap(read);
    asked.put("catalog", "table");
    asked.put("type", table.name());
    StructType answer;
    try {
      answer = source().inferSchema(new CaseInsensitiveStringMap(asked));
    } catch (Exception refused) {
      // A revision that is missing is not a missing table.
      boolean isMissing = option == null ? says(refused, "NotFound:") : says(refused, "GraphNotFound:");
      if (isMissing || says(refused, "the schema has no type")) throw new NoSuchTableException(table);
      throw unchanged(refused);
    }
    // Behind the columns, in the name of a column: what kind of table it is, its commit, and how many rows it has.
    int last = answer.length() - 1;
    String[] told = answer.fields()[last].name().split(" ");
    StructType schema = new StructType((StructField[]) Arrays.copyOf(answer.fields(), last));
    boolean isType = told[0].equals("type");
    read.remove("wap");
    read.remove("as_of");
    if (isType) read.remove("branch");
    read.put("revision", told[1]);
    read.put(isType ? "type" : "about", table.name());
    write.put("type", table.name());
    Table python = source().getTable(schema, new Transform[0], read);
    return new GraphTable(python, name + "." + table.toString(), read, isType ? write : null, Long.parseLong(told[2]));
  }

  public Identifier[] listProcedures(String[] namespace) {
    String[] names = isSystem(namespace) ? GraphProcedure.NAMES : new String[0];
    Identifier[] procedures = new Identifier[names.length];
    for (int i = 0; i < names.length; i++) procedures[i] = Identifier.of(namespace, names[i]);
    return procedures;
  }

  public UnboundProcedure loadProcedure(Identifier procedure) {
    if (!isSystem(procedure.namespace()) || !Arrays.asList(GraphProcedure.NAMES).contains(procedure.name()))
      throw new IllegalArgumentException(
          "there is no procedure '" + procedure + "'; the procedures are system." + String.join(", system.", GraphProcedure.NAMES));
    return new GraphProcedure(this, procedure.name());
  }

  /** What a procedure answers: the names of the columns. */
  String[] call(String procedure, String graph, String what, String where) {
    Map chosen = address(new String[] {graph});
    chosen.put("catalog", "call");
    chosen.put("procedure", procedure);
    chosen.put("what", what);
    if (where != null) chosen.put("where", where);
    return source().inferSchema(new CaseInsensitiveStringMap(chosen)).fieldNames();
  }

  private static boolean isSystem(String[] namespace) {
    return namespace.length == 1 && namespace[0].equals("system");
  }

  /** The options that name a graph and, if the namespace has one, a branch. */
  private Map address(String[] namespace) {
    Map chosen = new HashMap(options);
    chosen.remove("root");
    Object graphs = chosen.remove("graphs");
    String root = (String) options.get("root");
    if (root == null) throw new IllegalArgumentException("set spark.sql.catalog." + name + ".root to the folder of the graphs");
    if (namespace.length == 0) {
      chosen.put("root", root);
      if (graphs != null) chosen.put("graphs", graphs);
      return chosen;
    }
    chosen.put("graph", root + (root.endsWith("/") ? "" : "/") + namespace[0]);
    if (namespace.length > 1) {
      StringBuilder branch = new StringBuilder(namespace[1]);
      for (int i = 2; i < namespace.length; i++) branch.append(".").append(namespace[i]);
      chosen.put("branch", branch.toString());
    }
    return chosen;
  }

  private String[] names(String what, String[] namespace) {
    Map chosen = address(namespace);
    chosen.put("catalog", what);
    return source().inferSchema(new CaseInsensitiveStringMap(chosen)).fieldNames();
  }

  private String[] existing(String what, String[] namespace) throws NoSuchNamespaceException {
    try {
      return names(what, namespace);
    } catch (Exception refused) {
      if (says(refused, "NotFound:")) throw new NoSuchNamespaceException(namespace);
      throw unchanged(refused);
    }
  }

  private static boolean says(Exception refused, String words) {
    return String.valueOf(refused.getMessage()).contains(words);
  }

  /** Raises what Spark has raised, which no method here declares. */
  private static RuntimeException unchanged(Exception refused) {
    Platform.throwException(refused);
    return new IllegalStateException(refused);
  }

  static PythonDataSourceV2 source() {
    PythonDataSourceV2 source = new PythonDataSourceV2();
    source.setShortName(SOURCE);
    return source;
  }

  private static String[][] below(String[] namespace, String[] names) {
    String[][] namespaces = new String[names.length][];
    for (int i = 0; i < names.length; i++) {
      namespaces[i] = new String[namespace.length + 1];
      System.arraycopy(namespace, 0, namespaces[i], 0, namespace.length);
      namespaces[i][namespace.length] = names[i];
    }
    return namespaces;
  }

  public void createNamespace(String[] namespace, Map metadata) {
    throw new UnsupportedOperationException("a graph is made by omnigraph init, a branch by omnigraph branch create");
  }

  public void alterNamespace(String[] namespace, NamespaceChange[] changes) {
    throw new UnsupportedOperationException("a graph has no properties to alter");
  }

  public boolean dropNamespace(String[] namespace, boolean cascade) {
    throw new UnsupportedOperationException("a branch is deleted by omnigraph branch delete; a graph is a folder");
  }

  public Table createTable(Identifier table, StructType schema, Transform[] partitions, Map properties) {
    throw new UnsupportedOperationException("a type is declared in the schema of the graph: omnigraph schema apply");
  }

  public Table alterTable(Identifier table, TableChange[] changes) {
    throw new UnsupportedOperationException("a type is changed in the schema of the graph: omnigraph schema apply");
  }

  public boolean dropTable(Identifier table) {
    throw new UnsupportedOperationException("a type is dropped from the schema of the graph: omnigraph schema apply");
  }

  public void renameTable(Identifier before, Identifier after) {
    throw new UnsupportedOperationException("a type is renamed in the schema of the graph: omnigraph schema apply");
  }
}
