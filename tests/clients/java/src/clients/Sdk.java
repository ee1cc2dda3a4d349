package clients;

import com.aliyun.credentials.api.ICredentials;
import com.aliyun.credentials.api.ICredentialsProvider;
import com.aliyun.odps.Column;
import com.aliyun.odps.Instance;
import com.aliyun.odps.Odps;
import com.aliyun.odps.Partition;
import com.aliyun.odps.PartitionSpec;
import com.aliyun.odps.Project;
import com.aliyun.odps.Schema;
import com.aliyun.odps.Table;
import com.aliyun.odps.TableSchema;
import com.aliyun.odps.account.AliyunAccount;
import com.aliyun.odps.data.ArrayRecord;
import com.aliyun.odps.data.ArrowRecordReader;
import com.aliyun.odps.data.ArrowRecordWriter;
import com.aliyun.odps.data.Blob;
import com.aliyun.odps.data.Record;
import com.aliyun.odps.data.RecordReader;
import com.aliyun.odps.data.RecordWriter;
import com.aliyun.odps.data.ResultSet;
import com.aliyun.odps.storage.BlobManager;
import com.aliyun.odps.storage.MaxStorageClient;
import com.aliyun.odps.storage.internal.models.BlobWriteItem.ChecksumType;
import com.aliyun.odps.storage.read.BlobDataIterator;
import com.aliyun.odps.storage.read.InstanceReadSession;
import com.aliyun.odps.storage.read.TableReadSession;
import com.aliyun.odps.storage.settings.IncrementalReadOptions;
import com.aliyun.odps.storage.settings.SplitOptions;
import com.aliyun.odps.storage.write.TableArrowWriter;
import com.aliyun.odps.storage.write.TableWriteSession;
import com.aliyun.odps.storage.write.TableWriteSessionBuilder;
import com.aliyun.odps.storage.write.WriteMode;
import com.aliyun.odps.table.InstanceIdentifier;
import com.aliyun.odps.table.TableIdentifier;
import com.aliyun.odps.table.arrow.ArrowReader;
import com.aliyun.odps.table.arrow.constructor.ArrowBatchConstructor;
import com.aliyun.odps.table.read.split.InputSplit;
import com.aliyun.odps.table.record.accessor.ArrowToRecordConverter;
import com.aliyun.odps.table.record.constructor.RecordToArrowConverter;
import com.aliyun.odps.table.utils.SchemaUtils;
import com.aliyun.odps.task.SQLTask;
import com.aliyun.odps.tunnel.InstanceTunnel;
import com.aliyun.odps.tunnel.TableTunnel;
import com.aliyun.odps.tunnel.io.CompressOption;
import com.aliyun.odps.tunnel.streams.UpsertStream;
import com.aliyun.odps.type.TypeInfo;
import com.aliyun.odps.type.TypeInfoParser;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.io.ByteArrayInputStream;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.arrow.memory.RootAllocator;
import org.apache.arrow.vector.BigIntVector;
import org.apache.arrow.vector.FieldVector;
import org.apache.arrow.vector.VarBinaryVector;
import org.apache.arrow.vector.VectorSchemaRoot;

/** Jobs of odps-sdk-core and odps-sdk-storage-api (Storage API, version 2). */
final class Sdk {
  private static final HexFormat HEX = HexFormat.of();

  private final Odps odps;
  private final TableTunnel tunnel;
  private final MaxStorageClient storage;
  private final RootAllocator allocator = new RootAllocator();
  private final String project;

  private Sdk(String endpoint, String project, String id, String key) {
    odps = new Odps(new AliyunAccount(id, key));
    odps.setEndpoint(endpoint);
    odps.setDefaultProject(project);
    this.project = project;
    tunnel = new TableTunnel(odps);
    ICredentials keys =
        new ICredentials() {
          @Override
          public String getAccessKeyId() {
            return id;
          }

          @Override
          public String getAccessKeySecret() {
            return key;
          }

          @Override
          public String getSecurityToken() {
            return null;
          }

          @Override
          public String getProviderName() {
            return "fixed";
          }
        };
    ICredentialsProvider provider =
        new ICredentialsProvider() {
          @Override
          public ICredentials getCredentials() {
            return keys;
          }

          @Override
          public String getProviderName() {
            return "fixed";
          }

          @Override
          public void close() {}
        };
    storage =
        MaxStorageClient.builder()
            .endpoint(endpoint)
            .project(project)
            .credentialsProvider(provider)
            .build();
  }

  public static void main(String[] args) throws Exception {
    Map<String, String> env = System.getenv();
    Sdk sdk =
        new Sdk(
            env.get("CLIENT_ENDPOINT"),
            env.get("CLIENT_PROJECT"),
            env.get("CLIENT_ID"),
            env.get("CLIENT_KEY"));
    Map<String, Worker.Job> jobs = new HashMap<>();
    jobs.put("facts", sdk::facts);
    jobs.put("schema", sdk::schema);
    jobs.put("create", sdk::create);
    jobs.put("describe", sdk::describe);
    jobs.put("list", sdk::list);
    jobs.put("partitions", sdk::partitions);
    jobs.put("drop", sdk::drop);
    jobs.put("sql", sdk::sql);
    jobs.put("write", sdk::write);
    jobs.put("read", sdk::read);
    jobs.put("write_blobs", sdk::writeBlobs);
    jobs.put("read_blobs", sdk::readBlobs);
    Objects objects = new Objects(sdk.odps);
    jobs.put("resources", objects::resources);
    jobs.put("functions", objects::functions);
    jobs.put("interactive", objects::interactive);
    Worker.serve(jobs);
  }

  private TableIdentifier table(JsonObject given) {
    String name = Worker.text(given, "table");
    String schema = odps.getCurrentSchema();
    return schema == null
        ? TableIdentifier.of(project, name)
        : TableIdentifier.of(project, schema, name);
  }

  private static PartitionSpec partition(JsonObject given) {
    String spec = Worker.text(given, "partition");
    return spec == null ? null : new PartitionSpec(spec);
  }

  // -- projects and schemas -------------------------------------------------------------------

  private JsonElement facts(JsonObject given) throws Exception {
    Project told = odps.projects().get(project);
    told.reload();
    JsonObject answer = new JsonObject();
    answer.addProperty("exists", odps.projects().exists(project));
    answer.addProperty("status", String.valueOf(told.getStatus()));
    answer.addProperty("zone", told.getProperty("odps.sql.timezone"));
    answer.addProperty("tunnel", told.getTunnelEndpoint());
    List<String> instances = new ArrayList<>();
    for (Instance one : odps.instances()) {
      instances.add(String.valueOf(one.getStatus()));
    }
    answer.add("instances", Worker.list(instances));
    Instance instance = SQLTask.run(odps, "select 1;");
    instance.waitForSuccess();
    String task = instance.getTaskNames().iterator().next();
    answer.addProperty("progress", instance.getTaskProgress(task).get(0).getFinishedPercentage());
    answer.addProperty("summary", instance.getTaskSummary(task).getSummaryText());
    return answer;
  }

  /** Create a schema and use it from now on; return the schemas of the project. */
  private JsonElement schema(JsonObject given) throws Exception {
    String name = Worker.text(given, "schema");
    odps.schemas().create(name);
    odps.setCurrentSchema(name);
    List<String> names = new ArrayList<>();
    for (Schema one : odps.schemas()) {
      names.add(one.getName());
    }
    return Worker.list(names);
  }

  // -- tables and SQL -------------------------------------------------------------------------

  private static List<Column> columns(JsonObject given) {
    List<Column> columns = new ArrayList<>();
    if (given != null) {
      for (Map.Entry<String, JsonElement> one : given.entrySet()) {
        TypeInfo type = TypeInfoParser.getTypeInfoFromTypeString(one.getValue().getAsString());
        columns.add(new Column(one.getKey(), type));
      }
    }
    return columns;
  }

  private JsonElement create(JsonObject given) throws Exception {
    TableSchema schema = new TableSchema();
    schema.setColumns(columns(given.getAsJsonObject("columns")));
    schema.setPartitionColumns(columns(given.getAsJsonObject("partition_columns")));
    odps.tables()
        .newTableCreator(project, Worker.text(given, "table"), schema)
        .withComment("made by Java")
        .withHints(new HashMap<>(Map.of("odps.sql.type.system.odps2", "true")))
        .create();
    return JsonNull.INSTANCE;
  }

  private JsonElement describe(JsonObject given) throws Exception {
    Table table = odps.tables().get(Worker.text(given, "table"));
    table.reload();
    JsonObject told = new JsonObject();
    for (Column column : table.getSchema().getAllColumns()) {
      told.addProperty(column.getName(), column.getTypeInfo().getTypeName().toLowerCase());
    }
    JsonObject answer = new JsonObject();
    answer.add("columns", told);
    answer.addProperty("comment", table.getComment());
    answer.addProperty("partitioned", table.isPartitioned());
    answer.addProperty("records", table.getRecordNum());
    answer.addProperty("view", table.isVirtualView());
    answer.addProperty("created", table.getCreatedTime() != null);
    answer.addProperty("physical", table.getPhysicalSize() >= 0);
    List<String> key = table.getPrimaryKey();
    answer.add("key", Worker.list(key == null ? List.of() : key));
    return answer;
  }

  private JsonElement list(JsonObject given) {
    List<String> names = new ArrayList<>();
    for (Table table : odps.tables()) {
      names.add(table.getName());
    }
    return Worker.list(names);
  }

  private JsonElement partitions(JsonObject given) throws Exception {
    Table table = odps.tables().get(Worker.text(given, "table"));
    if (given.has("create")) {
      table.createPartition(new PartitionSpec(Worker.text(given, "create")), true);
    }
    if (given.has("delete")) {
      table.deletePartition(new PartitionSpec(Worker.text(given, "delete")), true);
    }
    List<String> specs = new ArrayList<>();
    for (Partition one : table.getPartitions()) {
      specs.add(one.getPartitionSpec().toString(false, true));
    }
    return Worker.list(specs);
  }

  private JsonElement drop(JsonObject given) throws Exception {
    String name = Worker.text(given, "table");
    odps.tables().delete(name, true);
    return new JsonPrimitive(odps.tables().exists(name));
  }

  private JsonElement sql(JsonObject given) throws Exception {
    Map<String, String> hints = new HashMap<>(Map.of("odps.sql.type.system.odps2", "true"));
    if (odps.getCurrentSchema() != null) {
      hints.put("odps.namespace.schema", "true");
      hints.put("odps.default.schema", odps.getCurrentSchema());
    }
    Instance instance = SQLTask.run(odps, project, Worker.text(given, "query"), hints, null);
    instance.waitForSuccess();
    JsonArray rows = new JsonArray();
    switch (String.valueOf(Worker.text(given, "way"))) {
      case "csv":
        for (Record record : SQLTask.getResult(instance)) {
          rows.add(Values.row(record));
        }
        return rows;
      case "tunnel":
        for (Record record : SQLTask.getResultByInstanceTunnel(instance)) {
          rows.add(Values.row(record));
        }
        return rows;
      case "set":
        ResultSet set = SQLTask.getResultSet(instance);
        while (set.hasNext()) {
          rows.add(Values.row(set.next()));
        }
        return rows;
      case "session":
        InstanceTunnel.DownloadSession session =
            new InstanceTunnel(odps).createDownloadSession(project, instance.getId());
        try (RecordReader reader = session.openRecordReader(0, session.getRecordCount())) {
          return rows(reader);
        }
      case "v2":
        InstanceReadSession read =
            storage
                .createInstanceReadSessionBuilder(
                    InstanceIdentifier.of(project, instance.getId()))
                .build();
        try (ArrowReader reader =
            read.createReaderBuilder().withOffset(0).withCount(read.getRecordCount()).build()) {
          while (reader.nextBatch()) {
            addRows(rows, reader.getCurrentValue(), read.getTableSchema().getColumns());
          }
        }
        return rows;
      default:
        JsonObject answer = new JsonObject();
        answer.addProperty("successful", instance.isSuccessful());
        answer.addProperty("owner", instance.getOwner());
        answer.addProperty("ended", !instance.getEndTime().before(instance.getStartTime()));
        answer.addProperty("query", ((SQLTask) instance.getTasks().get(0)).getQuery());
        return answer;
    }
  }

  // -- rows -----------------------------------------------------------------------------------

  private static JsonArray rows(RecordReader reader) throws Exception {
    JsonArray rows = new JsonArray();
    for (Record record; (record = reader.read()) != null; ) {
      rows.add(Values.row(record));
    }
    return rows;
  }

  private static void addRows(JsonArray rows, VectorSchemaRoot batch, List<Column> columns)
      throws Exception {
    int first = rows.size();
    for (int i = 0; i < batch.getRowCount(); i++) {
      rows.add(new JsonArray());
    }
    for (Column column : columns) {
      TypeInfo type = column.getTypeInfo();
      FieldVector cells = batch.getVector(column.getName());
      // The core reads DATETIME as an Arrow date, which this converter does not accept.
      boolean plain = cells.getField().toString().contains("Date(MILLISECOND)");
      var vector =
          plain ? null : ArrowToRecordConverter.createColumnVectorAccessor(cells, type);
      for (int i = 0; i < batch.getRowCount(); i++) {
        Object value =
            plain ? cells.getObject(i) : ArrowToRecordConverter.getData(vector, type, i);
        rows.get(first + i).getAsJsonArray().add(Values.toJson(type, value));
      }
    }
  }

  private JsonElement write(JsonObject given) throws Exception {
    JsonArray rows = given.getAsJsonArray("rows");
    String name = Worker.text(given, "table");
    switch (Worker.text(given, "way")) {
      case "records":
        writeByTunnel(name, partition(given), rows, false, compression(given));
        break;
      case "arrow":
        writeByTunnel(name, partition(given), rows, true, compression(given));
        break;
      case "stream":
        writeStream(name, partition(given), rows);
        break;
      case "upsert":
        upsert(name, rows, given.getAsJsonArray("delete"), names(given));
        break;
      default:
        writeByStorage(given, rows);
    }
    return JsonNull.INSTANCE;
  }

  private static CompressOption compression(JsonObject given) {
    String name = Worker.text(given, "compression");
    if (name == null) {
      return new CompressOption(CompressOption.CompressAlgorithm.ODPS_RAW, 0, 0);
    }
    return new CompressOption(CompressOption.CompressAlgorithm.valueOf(name), 1, 0);
  }

  private void writeByTunnel(
      String name, PartitionSpec spec, JsonArray rows, boolean arrow, CompressOption compression)
      throws Exception {
    TableTunnel.UploadSession session =
        spec == null
            ? tunnel.createUploadSession(project, name, false)
            : tunnel.createUploadSession(project, name, spec, false);
    if (arrow) {
      List<Column> columns = session.getSchema().getColumns();
      var schema = SchemaUtils.toArrowSchema(columns);
      try (VectorSchemaRoot root = VectorSchemaRoot.create(schema, allocator);
          ArrowRecordWriter writer = session.openArrowRecordWriter(0, compression)) {
        ArrowBatchConstructor<ArrayRecord> batch =
            RecordToArrowConverter.createRecordArrowBatchConstructor(columns, root);
        for (JsonElement row : rows) {
          ArrayRecord record = new ArrayRecord(columns.toArray(new Column[0]));
          Values.fill(record, row.getAsJsonArray());
          batch.write(record);
        }
        batch.finish();
        writer.write(root);
      }
    } else {
      try (RecordWriter writer = session.openRecordWriter(0, compression)) {
        for (JsonElement row : rows) {
          Record record = session.newRecord();
          Values.fill(record, row.getAsJsonArray());
          writer.write(record);
        }
      }
    }
    session.commit(new Long[] {0L});
  }

  private void writeStream(String name, PartitionSpec spec, JsonArray rows) throws Exception {
    TableTunnel.StreamUploadSession.Builder builder =
        tunnel.buildStreamUploadSession(project, name);
    if (spec != null) {
      builder.setPartitionSpec(spec).setCreatePartition(true);
    }
    TableTunnel.StreamUploadSession session = builder.build();
    TableTunnel.StreamRecordPack pack = session.newRecordPack();
    for (JsonElement row : rows) {
      Record record = session.newRecord();
      Values.fill(record, row.getAsJsonArray());
      pack.append(record);
    }
    pack.flush();
  }

  /** Upsert rows, or only the named columns of them, and delete others. */
  private void upsert(String name, JsonArray rows, JsonArray gone, List<String> only)
      throws Exception {
    try (TableTunnel.UpsertSession session = tunnel.buildUpsertSession(project, name).build()) {
      UpsertStream stream = session.buildUpsertStream().build();
      for (JsonElement row : rows) {
        Record record = session.newRecord();
        Values.fill(record, row.getAsJsonArray());
        if (only.isEmpty()) {
          stream.upsert(record);
        } else {
          stream.upsert(record, only);
        }
      }
      if (gone != null) {
        for (JsonElement row : gone) {
          Record record = session.newRecord();
          Values.fill(record, row.getAsJsonArray());
          stream.delete(record);
        }
      }
      stream.close();
      session.commit(false);
    }
  }

  /** Rows in a batch of a write, or in a split of a read. */
  private static long batch(JsonObject given) {
    return given.has("batch") ? given.get("batch").getAsLong() : 2;
  }

  private static List<String> names(JsonObject given) {
    List<String> names = new ArrayList<>();
    if (given.has("columns")) {
      given.getAsJsonArray("columns").forEach(one -> names.add(one.getAsString()));
    }
    return names;
  }

  private TableWriteSessionBuilder writing(JsonObject given) {
    TableWriteSessionBuilder builder = storage.createTableWriteSessionBuilder(table(given));
    PartitionSpec spec = partition(given);
    return spec == null ? builder : builder.withPartition(spec);
  }

  private void writeByStorage(JsonObject given, JsonArray rows) throws Exception {
    boolean streaming = "v2-streaming".equals(Worker.text(given, "way"));
    TableWriteSession session =
        writing(given)
            .withOverwrite(given.has("overwrite"))
            .withWriteMode(streaming ? WriteMode.STREAMING : WriteMode.BATCH)
            .build();
    TableArrowWriter arrow =
        (TableArrowWriter) session.createWriterBuilder(streaming ? "default" : "0", 1).build();
    try (RecordWriter writer = arrow.getAsRecordWriter(batch(given))) {
      for (JsonElement row : rows) {
        Record record = writer.newRecord(false);
        Values.fill(record, row.getAsJsonArray());
        writer.write(record);
      }
      if (given.has("delete")) {
        for (JsonElement row : given.getAsJsonArray("delete")) {
          Record record = writer.newRecord(false);
          Values.fill(record, row.getAsJsonArray());
          writer.delete(record);
        }
      }
    }
    session.commit();
  }

  private JsonElement read(JsonObject given) throws Exception {
    String name = Worker.text(given, "table");
    PartitionSpec spec = partition(given);
    String way = Worker.text(given, "way");
    if (way.startsWith("v2")) {
      return readByStorage(given);
    } else if (way.equals("preview")) {
      try (RecordReader reader = odps.tables().get(name).read(spec, null, 100)) {
        return rows(reader);
      }
    }
    TableTunnel.DownloadSession session =
        spec == null
            ? tunnel.createDownloadSession(project, name)
            : tunnel.createDownloadSession(project, name, spec);
    long count = session.getRecordCount();
    if (way.equals("records")) {
      try (RecordReader reader = session.openRecordReader(0, count, compression(given))) {
        return rows(reader);
      }
    }
    JsonArray rows = new JsonArray();
    try (ArrowRecordReader reader = session.openArrowRecordReader(0, count, compression(given))) {
      for (VectorSchemaRoot batch; (batch = reader.read()) != null; ) {
        addRows(rows, batch, session.getSchema().getColumns());
      }
    }
    return rows;
  }

  private JsonElement readByStorage(JsonObject given) throws Exception {
    PartitionSpec spec = partition(given);
    if (given.get("way").getAsString().equals("v2-preview")) {
      JsonArray rows = new JsonArray();
      Table described = odps.tables().get(Worker.text(given, "table"));
      List<Column> columns = described.getSchema().getColumns();
      try (ArrowReader reader = storage.previewTable(table(given), spec, null, 100)) {
        while (reader.nextBatch()) {
          addRows(rows, reader.getCurrentValue(), columns);
        }
      }
      return rows;
    }
    boolean byRows = given.get("way").getAsString().equals("v2-rows");
    SplitOptions split =
        byRows
            ? SplitOptions.newBuilder().withSplitRowCount(batch(given)).build()
            : SplitOptions.newBuilder().build();
    var builder = storage.createTableReadSessionBuilder(table(given)).withSplitOptions(split);
    if (spec != null) {
      builder.withPartitions(List.of(spec));
    }
    if (given.has("filter")) {
      builder.withFilter(Worker.text(given, "filter"));
    }
    if (given.has("columns")) {
      builder.withColumns(names(given));
    }
    if (given.has("since")) {
      builder.withIncrementalReadEnabled(true).withIncrementalReadOptions(
          IncrementalReadOptions.newBuilder()
              .withMode(Worker.text(given, "mode"))
              .withStartVersion(given.get("since").getAsLong())
              .withEndVersion(-1)
              .withStartTimeStamp("-1")
              .withEndTimeStamp("-1")
              .build());
    }
    TableReadSession session = builder.build();
    JsonArray rows = new JsonArray();
    for (InputSplit one : session.getSplits()) {
      ArrowReader reader = session.createReaderBuilder(one).build();
      if (byRows) { // records out of Arrow, by the client
        rows.addAll(rows(reader.getAsRecordReader()));
      } else {
        while (reader.nextBatch()) {
          addRows(rows, reader.getCurrentValue(), session.getTableSchema().getAllColumns());
        }
      }
      reader.close();
    }
    return rows;
  }

  // -- blobs ----------------------------------------------------------------------------------

  /** Write blobs of a table (id BIGINT, body BLOB): one request for each, or one for all. */
  private JsonElement writeBlobs(JsonObject given) throws Exception {
    TableWriteSession session = writing(given).build();
    JsonArray rows = given.getAsJsonArray("rows");
    ChecksumType checksum = ChecksumType.valueOf(Worker.text(given, "checksum"));
    boolean batch = given.get("batch").getAsBoolean();
    var builder = session.createWriterBuilder("0", 1).withBlobChecksumType(checksum);
    TableArrowWriter writer =
        (TableArrowWriter) builder.withBatchBlobUploadEnabled(batch).build();
    if (batch) {
      try (VectorSchemaRoot root = writer.createVectorSchemaRoot()) {
        BigIntVector ids = (BigIntVector) root.getVector("id");
        VarBinaryVector bodies = (VarBinaryVector) root.getVector("body");
        for (int i = 0; i < rows.size(); i++) {
          JsonArray row = rows.get(i).getAsJsonArray();
          ids.setSafe(i, row.get(0).getAsLong());
          if (!row.get(1).isJsonNull()) {
            bodies.setSafe(i, HEX.parseHex(row.get(1).getAsString()));
          }
        }
        root.setRowCount(rows.size());
        writer.writeBatch(root);
      }
      writer.close();
    } else {
      try (RecordWriter records = writer.getAsRecordWriter(100)) {
        for (JsonElement one : rows) {
          JsonElement body = one.getAsJsonArray().get(1);
          Record record = records.newRecord(false);
          record.setBigint(0, one.getAsJsonArray().get(0).getAsLong());
          if (!body.isJsonNull()) {
            InputStream bytes = new ByteArrayInputStream(HEX.parseHex(body.getAsString()));
            record.set(1, Blob.fromInputStream(bytes));
          }
          records.write(record);
        }
      }
    }
    session.commit();
    return JsonNull.INSTANCE;
  }

  private JsonElement readBlobs(JsonObject given) throws Exception {
    SplitOptions split = SplitOptions.newBuilder().withSplitRowCount(100).build();
    TableReadSession session =
        storage.createTableReadSessionBuilder(table(given)).withSplitOptions(split).build();
    List<Long> ids = new ArrayList<>();
    List<Blob> blobs = new ArrayList<>();
    for (InputSplit one : session.getSplits()) {
      try (RecordReader reader = session.createReaderBuilder(one).build().getAsRecordReader()) {
        for (Record record; (record = reader.read()) != null; ) {
          ids.add(record.getBigint("id"));
          blobs.add((Blob) record.get("body"));
        }
      }
    }
    BlobManager manager = storage.openBlobManager();
    List<Blob> present = new ArrayList<>(blobs);
    present.removeIf(blob -> blob == null);
    List<String> bodies = new ArrayList<>();
    if (given.get("batch").getAsBoolean()) {
      try (BlobDataIterator iterator = manager.batchDownload(present)) {
        while (iterator.hasNext()) {
          try (InputStream body = iterator.next()) {
            bodies.add(HEX.formatHex(body.readAllBytes()));
          }
        }
      }
    } else {
      for (Blob blob : present) {
        try (InputStream body = manager.download(blob)) {
          bodies.add(HEX.formatHex(body.readAllBytes()));
        }
      }
    }
    JsonArray rows = new JsonArray();
    Iterator<String> next = bodies.iterator();
    for (int i = 0; i < ids.size(); i++) {
      JsonArray row = new JsonArray();
      row.add(ids.get(i));
      row.add(blobs.get(i) == null ? JsonNull.INSTANCE : new JsonPrimitive(next.next()));
      rows.add(row);
    }
    return rows;
  }
}
