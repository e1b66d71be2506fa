package omnigraph.spark;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.connector.expressions.aggregate.AggregateFunc;
import org.apache.spark.sql.connector.expressions.aggregate.Aggregation;
import org.apache.spark.sql.connector.expressions.aggregate.CountStar;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.connector.read.SupportsPushDownAggregates;
import org.apache.spark.sql.connector.read.SupportsPushDownFilters;
import org.apache.spark.sql.connector.read.SupportsPushDownLimit;
import org.apache.spark.sql.connector.read.SupportsPushDownRequiredColumns;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.EqualTo;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.GreaterThan;
import org.apache.spark.sql.sources.GreaterThanOrEqual;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.IsNotNull;
import org.apache.spark.sql.sources.IsNull;
import org.apache.spark.sql.sources.LessThan;
import org.apache.spark.sql.sources.LessThanOrEqual;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Reads only the columns that a query needs, and of the rows those that conditions on text, whole numbers and truth values leave;
 * Spark applies every condition again. Without a condition, a limit ends each task early, and a count of rows reads none.
 */
public class GraphScanBuilder
    implements SupportsPushDownRequiredColumns, SupportsPushDownFilters, SupportsPushDownLimit, SupportsPushDownAggregates {
  private String name;
  private StructType all;
  private StructType schema;
  private Map options;
  private long rows;

  public GraphScanBuilder(String name, StructType schema, Map options, long rows) {
    this.name = name;
    this.all = schema;
    this.schema = schema;
    this.options = new HashMap(options);
    this.rows = rows;
  }

  public void pruneColumns(StructType required) {
    if (options.containsKey("count")) return;
    // A batch without columns would not say how many rows it has.
    schema = required.length() > 0 || !isType() ? required : new StructType().add("id", DataTypes.StringType);
    if (schema.length() == 0) schema = all;
  }

  public Filter[] pushFilters(Filter[] filters) {
    StringBuilder text = new StringBuilder(String.valueOf(options.containsKey("filter") ? "(" + options.get("filter") + ")" : ""));
    for (int i = 0; isType() && i < filters.length; i++) {
      String condition = condition(filters[i]);
      if (condition != null) text.append(text.length() == 0 ? "" : " AND ").append(condition);
    }
    if (text.length() > 0) options.put("filter", text.toString());
    return filters;
  }

  public Filter[] pushedFilters() {
    return new Filter[0];
  }

  public boolean pushLimit(int limit) {
    if (isType()) options.put("limit", String.valueOf(limit));
    return isType();
  }

  public boolean supportCompletePushDown(Aggregation aggregation) {
    AggregateFunc[] functions = aggregation.aggregateExpressions();
    if (!isType() || options.containsKey("filter") || aggregation.groupByExpressions().length > 0) return false;
    return functions.length == 1 && functions[0] instanceof CountStar;
  }

  public boolean pushAggregation(Aggregation aggregation) {
    if (!supportCompletePushDown(aggregation)) return false;
    options.put("count", "true");
    schema = new StructType().add("count", DataTypes.LongType);
    return true;
  }

  public Scan build() {
    return new GraphScan(name, schema, options, options.containsKey("count") ? 1L : rows);
  }

  private boolean isType() {
    return options.containsKey("type");
  }

  /** A condition in the words of the source; null if it must not be asked for there. */
  private String condition(Filter filter) {
    if (filter instanceof EqualTo) return compared(((EqualTo) filter).attribute(), "=", ((EqualTo) filter).value());
    if (filter instanceof GreaterThan) return compared(((GreaterThan) filter).attribute(), ">", ((GreaterThan) filter).value());
    if (filter instanceof LessThan) return compared(((LessThan) filter).attribute(), "<", ((LessThan) filter).value());
    if (filter instanceof GreaterThanOrEqual)
      return compared(((GreaterThanOrEqual) filter).attribute(), ">=", ((GreaterThanOrEqual) filter).value());
    if (filter instanceof LessThanOrEqual)
      return compared(((LessThanOrEqual) filter).attribute(), "<=", ((LessThanOrEqual) filter).value());
    if (filter instanceof IsNull) return after(column(((IsNull) filter).attribute()), " IS NULL");
    if (filter instanceof IsNotNull) return after(column(((IsNotNull) filter).attribute()), " IS NOT NULL");
    if (filter instanceof In) return among(column(((In) filter).attribute()), ((In) filter).values());
    if (filter instanceof Not) return after(before("NOT (", condition(((Not) filter).child())), ")");
    if (filter instanceof And) return both(condition(((And) filter).left()), " AND ", condition(((And) filter).right()));
    if (filter instanceof Or) return both(condition(((Or) filter).left()), " OR ", condition(((Or) filter).right()));
    return null;
  }

  private String compared(String attribute, String comparison, Object value) {
    String column = column(attribute);
    String text = literal(value);
    return column == null || text == null ? null : column + " " + comparison + " " + text;
  }

  private static String among(String column, Object[] values) {
    if (column == null || values.length == 0) return null;
    StringBuilder text = new StringBuilder(column).append(" IN (");
    for (int i = 0; i < values.length; i++) {
      String value = literal(values[i]);
      if (value == null) return null;
      text.append(i == 0 ? "" : ", ").append(value);
    }
    return text.append(")").toString();
  }

  /** A column whose values compare there as they do in Spark. */
  private String column(String attribute) {
    if (attribute.equals(RowId.NAME)) return "`id`";
    if (!Arrays.asList(all.fieldNames()).contains(attribute)) return null;
    DataType type = all.apply(attribute).dataType();
    boolean isPlain =
        type.equals(DataTypes.StringType) || type.equals(DataTypes.IntegerType) || type.equals(DataTypes.LongType)
            || type.equals(DataTypes.ShortType) || type.equals(DataTypes.ByteType) || type.equals(DataTypes.BooleanType);
    return isPlain ? "`" + attribute + "`" : null;
  }

  private static String literal(Object value) {
    if (value instanceof String) return "'" + ((String) value).replace("'", "''") + "'";
    boolean isWhole = value instanceof Integer || value instanceof Long || value instanceof Short || value instanceof Byte;
    return isWhole || value instanceof Boolean ? String.valueOf(value) : null;
  }

  private static String before(String words, String text) {
    return text == null ? null : words + text;
  }

  private static String after(String text, String words) {
    return text == null ? null : text + words;
  }

  private static String both(String left, String word, String right) {
    return left == null || right == null ? null : "(" + left + word + right + ")";
  }
}
