package omnigraph.spark;

import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.analysis.NoSuchNamespaceException;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.NamespaceChange;
import org.apache.spark.sql.connector.catalog.SupportsNamespaces;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.Platform;

/**
 * The graphs below a root as a catalog of Spark: `og.people.Person` is a type of a graph, `og.people.review.Person` that type on a
 * branch. Everything is asked of the Python data source, which answers a question for names with a schema that has them as columns.
 */
public class Catalog implements TableCatalog, SupportsNamespaces {
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

  private Table load(Identifier table, String option, String value) throws NoSuchTableException {
    Map chosen = address(table.namespace());
    chosen.put("type", table.name());
    if (option != null) chosen.put(option, value);
    PythonDataSourceV2 source = source();
    StructType schema;
    try {
      schema = source.inferSchema(new CaseInsensitiveStringMap(chosen));
    } catch (Exception refused) {
      // A revision that is missing is not a missing table.
      boolean isMissing = option == null ? says(refused, "NotFound:") : says(refused, "GraphNotFound:");
      if (isMissing || says(refused, "the schema has no type")) throw new NoSuchTableException(table);
      throw unchanged(refused);
    }
    return new GraphTable(source.getTable(schema, new Transform[0], chosen), name + "." + table.toString(), chosen);
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

  private static PythonDataSourceV2 source() {
    PythonDataSourceV2 source = new PythonDataSourceV2();
    source.setShortName("omnigraph");
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
