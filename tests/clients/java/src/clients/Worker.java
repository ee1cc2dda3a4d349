package clients;

import com.google.gson.Gson;
import com.google.gson.GsonBuilder;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/** Reads jobs from standard input, a JSON object a line, and prints a JSON object for each. */
final class Worker {
  static final Gson GSON = new GsonBuilder().serializeNulls().disableHtmlEscaping().create();

  /** A job: its arguments in, its result out. */
  interface Job {
    JsonElement run(JsonObject arguments) throws Exception;
  }

  private Worker() {}

  static void serve(Map<String, Job> jobs) throws Exception {
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    System.setOut(System.err); // what the clients print
    BufferedReader in =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line; (line = in.readLine()) != null; ) {
      JsonObject given = GSON.fromJson(line, JsonObject.class);
      JsonObject answer = new JsonObject();
      try {
        answer.add("result", jobs.get(given.get("job").getAsString()).run(given));
      } catch (Throwable error) { // also AssertionError, NoSuchMethodError
        error.printStackTrace();
        answer.addProperty("error", String.valueOf(error));
      }
      out.println(GSON.toJson(answer));
    }
    System.exit(0); // threads of the clients keep running
  }

  static String text(JsonObject given, String name) {
    return given.has(name) && !given.get(name).isJsonNull() ? given.get(name).getAsString() : null;
  }

  static JsonArray list(Iterable<?> values) {
    JsonArray list = new JsonArray();
    values.forEach(value -> list.add(GSON.toJsonTree(value)));
    return list;
  }
}
