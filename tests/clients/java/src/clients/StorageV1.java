package clients;

import com.aliyun.odps.PartitionSpec;
import com.aliyun.odps.account.AliyunAccount;
import com.aliyun.odps.data.ArrayRecord;
import com.aliyun.odps.Column;
import com.aliyun.odps.table.DataSchema;
import com.aliyun.odps.table.TableIdentifier;
import com.aliyun.odps.table.arrow.constructor.ArrowBatchConstructor;
import com.aliyun.odps.table.configuration.CompressionCodec;
import com.aliyun.odps.table.configuration.ReaderOptions;
import com.aliyun.odps.table.configuration.SplitOptions;
import com.aliyun.odps.table.configuration.WriterOptions;
import com.aliyun.odps.table.enviroment.Credentials;
import com.aliyun.odps.table.enviroment.EnvironmentSettings;
import com.aliyun.odps.table.read.SplitReader;
import com.aliyun.odps.table.read.TableBatchReadSession;
import com.aliyun.odps.table.read.TableReadSessionBuilder;
import com.aliyun.odps.table.read.split.InputSplit;
import com.aliyun.odps.table.read.split.InputSplitAssigner;
import com.aliyun.odps.table.record.constructor.RecordToArrowConverter;
import com.aliyun.odps.table.write.BatchWriter;
import com.aliyun.odps.table.write.TableBatchWriteSession;
import com.aliyun.odps.table.write.TableWriteSessionBuilder;
import com.aliyun.odps.table.write.WriterAttemptId;
import com.aliyun.odps.table.write.WriterCommitMessage;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.arrow.vector.VectorSchemaRoot;

/** Jobs of odps-sdk-table-api (Storage API, version 1). */
final class StorageV1 {
  private final EnvironmentSettings settings;
  private final String project;

  private StorageV1(Map<String, String> env) {
    project = env.get("CLIENT_PROJECT");
    settings =
        EnvironmentSettings.newBuilder()
            .withCredentials(
                Credentials.newBuilder()
                    .withAccount(new AliyunAccount(env.get("CLIENT_ID"), env.get("CLIENT_KEY")))
                    .build())
            .withServiceEndpoint(env.get("CLIENT_ENDPOINT"))
            .withDefaultProject(project)
            .build();
  }

  public static void main(String[] args) throws Exception {
    StorageV1 client = new StorageV1(System.getenv());
    Worker.serve(Map.of("write", client::write, "read", client::read));
  }

  private TableIdentifier table(JsonObject given) {
    return TableIdentifier.of(project, Worker.text(given, "table"));
  }

  private static CompressionCodec codec(JsonObject given) {
    String name = Worker.text(given, "compression");
    return name == null ? CompressionCodec.NO_COMPRESSION : CompressionCodec.valueOf(name);
  }

  private JsonElement write(JsonObject given) throws Exception {
    TableWriteSessionBuilder builder =
        new TableWriteSessionBuilder()
            .identifier(table(given))
            .overwrite(given.has("overwrite"))
            .withSettings(settings);
    String spec = Worker.text(given, "partition");
    if (spec != null) {
      builder.partition(new PartitionSpec(spec));
    }
    TableBatchWriteSession session = builder.buildBatchWriteSession();
    DataSchema schema = session.requiredSchema();
    WriterOptions options =
        WriterOptions.newBuilder()
            .withSettings(settings)
            .withCompressionCodec(codec(given))
            .build();
    WriterCommitMessage message;
    try (BatchWriter<VectorSchemaRoot> writer =
        session.createArrowWriter(0, WriterAttemptId.of(0), options)) {
      VectorSchemaRoot root = writer.newElement();
      List<Column> columns = schema.getColumns();
      ArrowBatchConstructor<ArrayRecord> batch =
          RecordToArrowConverter.createRecordArrowBatchConstructor(columns, root);
      for (JsonElement row : given.getAsJsonArray("rows")) {
        ArrayRecord record = new ArrayRecord(columns.toArray(new Column[0]));
        Values.fill(record, row.getAsJsonArray());
        batch.write(record);
      }
      batch.finish();
      writer.write(root);
      message = writer.commit();
      root.close();
    }
    session.commit(new WriterCommitMessage[] {message});
    return JsonNull.INSTANCE;
  }

  private JsonElement read(JsonObject given) throws Exception {
    boolean byRows = "rows".equals(Worker.text(given, "way"));
    SplitOptions.Builder split = SplitOptions.newBuilder();
    TableReadSessionBuilder builder =
        new TableReadSessionBuilder()
            .identifier(table(given))
            .withSettings(settings)
            .withSplitOptions(byRows ? split.SplitByRowOffset().build() : split.build());
    String spec = Worker.text(given, "partition");
    if (spec != null) {
      builder.requiredPartitions(List.of(new PartitionSpec(spec)));
    }
    TableBatchReadSession session = builder.buildBatchReadSession();
    InputSplitAssigner assigner = session.getInputSplitAssigner();
    List<InputSplit> splits = new ArrayList<>();
    if (byRows) {
      for (long row = 0; row < assigner.getTotalRowCount(); row += 2) {
        long count = Math.min(2, assigner.getTotalRowCount() - row);
        splits.add(assigner.getSplitByRowOffset(row, count));
      }
    } else {
      splits.addAll(List.of(assigner.getAllSplits()));
    }
    ReaderOptions options =
        ReaderOptions.newBuilder()
            .withSettings(settings)
            .withCompressionCodec(codec(given))
            .build();
    JsonArray rows = new JsonArray();
    for (InputSplit one : splits) {
      try (SplitReader<ArrayRecord> reader = session.createRecordReader(one, options)) {
        while (reader.hasNext()) {
          rows.add(Values.row(reader.get()));
        }
      }
    }
    return rows;
  }
}
