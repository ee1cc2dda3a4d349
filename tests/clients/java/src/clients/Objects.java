package clients;

import com.aliyun.odps.FileResource;
import com.aliyun.odps.Function;
import com.aliyun.odps.NoSuchObjectException;
import com.aliyun.odps.Odps;
import com.aliyun.odps.PyResource;
import com.aliyun.odps.Resource;
import com.aliyun.odps.TableResource;
import com.aliyun.odps.data.Record;
import com.aliyun.odps.sqa.ExecuteMode;
import com.aliyun.odps.sqa.SQLExecutor;
import com.aliyun.odps.sqa.SQLExecutorBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Jobs of odps-sdk-core: resources, functions, and queries by MaxQA. */
final class Objects {
  private final Odps odps;

  Objects(Odps odps) {
    this.odps = odps;
  }

  private static InputStream stream(String text) {
    return new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8));
  }

  /** Create, update, read, list and delete a file, and a resource that names a table. */
  JsonElement resources(JsonObject given) throws Exception {
    String name = Worker.text(given, "name");
    FileResource made = new PyResource();
    made.setName(name);
    made.setComment("noted");
    odps.resources().create(made, stream(Worker.text(given, "first")));
    odps.resources().update(made, stream(Worker.text(given, "second")));
    TableResource table = new TableResource(Worker.text(given, "table"), null, null);
    table.setName(name + "_table");
    odps.resources().create(table);
    JsonObject answer = new JsonObject();
    try (InputStream content = odps.resources().getResourceAsStream(name)) {
      answer.addProperty("content", new String(content.readAllBytes(), StandardCharsets.UTF_8));
    }
    Resource found = odps.resources().get(name);
    found.reload();
    answer.addProperty("type", String.valueOf(found.getType()));
    answer.addProperty("comment", found.getComment());
    answer.addProperty("size", found.getSize());
    answer.addProperty("dated", found.getCreatedTime() != null);
    TableResource source = (TableResource) odps.resources().get(name + "_table");
    answer.addProperty("table", source.getSourceTable().getName());
    JsonArray listed = new JsonArray();
    for (Resource one : odps.resources()) {
      listed.add(one.getName());
    }
    answer.add("listed", listed);
    odps.resources().delete(name + "_table");
    odps.resources().delete(name);
    answer.addProperty("exists", odps.resources().exists(name));
    return answer;
  }

  /** Register, update, read, list and delete a function. */
  JsonElement functions(JsonObject given) throws Exception {
    String name = Worker.text(given, "name");
    FileResource resource = new PyResource();
    resource.setName(name + ".py");
    odps.resources().create(resource, stream("class F: pass"));
    Function made = new Function();
    made.setName(name);
    made.setClassPath(name + ".F");
    made.setResources(List.of(name + ".py"));
    odps.functions().create(made);
    made.setClassPath(name + ".G");
    odps.functions().update(made);
    Function found = odps.functions().get(name);
    JsonObject answer = new JsonObject();
    answer.addProperty("class", found.getClassPath());
    answer.add("resources", Worker.list(found.getResourceNames()));
    answer.addProperty("dated", found.getCreatedTime() != null);
    JsonArray listed = new JsonArray();
    for (Function one : odps.functions()) {
      listed.add(one.getName());
    }
    answer.add("listed", listed);
    odps.functions().delete(name);
    try {
      found.reload();
    } catch (NoSuchObjectException error) {
      answer.addProperty("exists", false);
    }
    return answer;
  }

  /** Run a query by MaxQA; return its rows, read from the tunnel or from the status. */
  JsonElement interactive(JsonObject given) throws Exception {
    SQLExecutor executor =
        SQLExecutorBuilder.builder()
            .odps(odps)
            .executeMode(ExecuteMode.INTERACTIVE_V2)
            .quotaName("q")
            .useInstanceTunnel(given.get("tunnel").getAsBoolean())
            .build();
    Map<String, String> hints = new HashMap<>(Map.of("odps.sql.type.system.odps2", "true"));
    executor.run(Worker.text(given, "query"), hints);
    JsonArray rows = new JsonArray();
    for (Record record : executor.getResult()) {
      rows.add(Values.row(record));
    }
    executor.close();
    return rows;
  }
}
