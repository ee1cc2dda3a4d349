package clients;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.Statement;
import java.util.Map;
import java.util.Properties;

/** Jobs of the JDBC driver. */
final class Jdbc {
  private final Connection connection;

  private Jdbc(Map<String, String> env) throws Exception {
    Class.forName("com.aliyun.odps.jdbc.OdpsDriver");
    Properties config = new Properties();
    config.put("access_id", env.get("CLIENT_ID"));
    config.put("access_key", env.get("CLIENT_KEY"));
    config.put("project_name", env.get("CLIENT_PROJECT"));
    String url = "jdbc:odps:" + env.get("CLIENT_ENDPOINT");
    connection = DriverManager.getConnection(url, config);
  }

  public static void main(String[] args) throws Exception {
    Jdbc jdbc = new Jdbc(System.getenv());
    Worker.serve(
        Map.of(
            "query", jdbc::query,
            "update", jdbc::update,
            "insert", jdbc::insert,
            "metadata", jdbc::metadata));
  }

  private static JsonArray rows(ResultSet found) throws Exception {
    JsonArray rows = new JsonArray();
    int count = found.getMetaData().getColumnCount();
    while (found.next()) {
      JsonArray row = new JsonArray();
      for (int i = 1; i <= count; i++) {
        String text = found.getString(i);
        row.add(text == null ? JsonNull.INSTANCE : new JsonPrimitive(text));
      }
      rows.add(row);
    }
    return rows;
  }

  /** Return the rows as text, and the names and types of the columns. */
  private JsonElement query(JsonObject given) throws Exception {
    JsonObject answer = new JsonObject();
    try (Statement statement = connection.createStatement()) {
      ResultSet found = statement.executeQuery(Worker.text(given, "query"));
      ResultSetMetaData told = found.getMetaData();
      JsonObject columns = new JsonObject();
      for (int i = 1; i <= told.getColumnCount(); i++) {
        columns.addProperty(told.getColumnName(i), told.getColumnTypeName(i).toLowerCase());
      }
      answer.add("columns", columns);
      answer.add("rows", rows(found));
    }
    return answer;
  }

  private JsonElement update(JsonObject given) throws Exception {
    try (Statement statement = connection.createStatement()) {
      return new JsonPrimitive(statement.executeUpdate(Worker.text(given, "query")));
    }
  }

  /** Insert rows of text by a prepared statement, as a batch. */
  private JsonElement insert(JsonObject given) throws Exception {
    try (PreparedStatement statement =
        connection.prepareStatement(Worker.text(given, "query"))) {
      for (JsonElement row : given.getAsJsonArray("rows")) {
        JsonArray cells = row.getAsJsonArray();
        statement.setLong(1, cells.get(0).getAsLong());
        statement.setString(2, cells.get(1).getAsString());
        statement.addBatch();
      }
      return Worker.GSON.toJsonTree(statement.executeBatch());
    }
  }

  private JsonElement metadata(JsonObject given) throws Exception {
    var told = connection.getMetaData();
    String table = Worker.text(given, "table");
    JsonObject answer = new JsonObject();
    answer.addProperty("product", told.getDatabaseProductName());
    answer.add("catalogs", rows(told.getCatalogs()));
    answer.add("schemas", rows(told.getSchemas()));
    answer.add("tables", rows(told.getTables(null, null, table, new String[] {"TABLE"})));
    answer.add("views", rows(told.getTables(null, null, "%", new String[] {"VIEW"})));
    answer.add("columns", rows(told.getColumns(null, null, table, "%")));
    answer.add("keys", rows(told.getPrimaryKeys(null, null, table)));
    return answer;
  }
}
