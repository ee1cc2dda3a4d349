package clients;

import com.aliyun.odps.Column;
import com.aliyun.odps.data.AbstractChar;
import com.aliyun.odps.data.Binary;
import com.aliyun.odps.data.Char;
import com.aliyun.odps.data.Record;
import com.aliyun.odps.data.SimpleJsonValue;
import com.aliyun.odps.data.SimpleStruct;
import com.aliyun.odps.data.Struct;
import com.aliyun.odps.data.Varchar;
import com.aliyun.odps.type.ArrayTypeInfo;
import com.aliyun.odps.type.CharTypeInfo;
import com.aliyun.odps.type.MapTypeInfo;
import com.aliyun.odps.type.StructTypeInfo;
import com.aliyun.odps.type.TypeInfo;
import com.aliyun.odps.type.VarcharTypeInfo;
import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonNull;
import com.google.gson.JsonObject;
import com.google.gson.JsonPrimitive;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.time.temporal.Temporal;
import java.util.ArrayList;
import java.util.Date;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Cells as JSON: bytes as hex, decimals and times (in UTC) as text, maps as sorted pairs. */
final class Values {
  private static final DateTimeFormatter TIME =
      DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSSSSS");
  private static final HexFormat HEX = HexFormat.of();

  private Values() {}

  static JsonArray row(Record record) {
    JsonArray row = new JsonArray();
    Column[] columns = record.getColumns();
    for (int i = 0; i < columns.length; i++) {
      row.add(toJson(columns[i].getTypeInfo(), record.get(i)));
    }
    return row;
  }

  static void fill(Record record, JsonArray row) {
    Column[] columns = record.getColumns();
    for (int i = 0; i < row.size(); i++) {
      record.set(i, fromJson(columns[i].getTypeInfo(), row.get(i)));
    }
  }

  static JsonElement toJson(TypeInfo type, Object value) {
    if (value == null) {
      return JsonNull.INSTANCE;
    } else if (value instanceof Boolean) {
      return new JsonPrimitive((Boolean) value);
    } else if (value instanceof BigDecimal) {
      return new JsonPrimitive(((BigDecimal) value).stripTrailingZeros().toPlainString());
    } else if (value instanceof Number) {
      double number = ((Number) value).doubleValue();
      boolean finite = Double.isFinite(number);
      return finite ? new JsonPrimitive((Number) value) : new JsonPrimitive(value.toString());
    } else if (value instanceof Binary) {
      return new JsonPrimitive(HEX.formatHex(((Binary) value).data()));
    } else if (value instanceof byte[]) {
      return new JsonPrimitive(new String((byte[]) value, StandardCharsets.UTF_8));
    } else if (value instanceof AbstractChar) {
      return new JsonPrimitive(((AbstractChar) value).getValue());
    } else if (value instanceof Instant) {
      return new JsonPrimitive(TIME.format(((Instant) value).atZone(ZoneOffset.UTC)));
    } else if (value instanceof ZonedDateTime) {
      return toJson(type, ((ZonedDateTime) value).toInstant());
    } else if (value instanceof LocalDateTime) {
      return new JsonPrimitive(TIME.format((Temporal) value));
    } else if (value instanceof java.sql.Timestamp) {
      return toJson(type, ((java.sql.Timestamp) value).toInstant());
    } else if (value instanceof java.sql.Date) {
      return new JsonPrimitive(value.toString());
    } else if (value instanceof Date) {
      return toJson(type, ((Date) value).toInstant());
    } else if (value instanceof List) {
      JsonArray list = new JsonArray();
      TypeInfo element = ((ArrayTypeInfo) type).getElementTypeInfo();
      ((List<?>) value).forEach(one -> list.add(toJson(element, one)));
      return list;
    } else if (value instanceof Map) {
      TreeMap<String, JsonArray> pairs = new TreeMap<>();
      MapTypeInfo map = (MapTypeInfo) type;
      for (Map.Entry<?, ?> one : ((Map<?, ?>) value).entrySet()) {
        JsonElement key = toJson(map.getKeyTypeInfo(), one.getKey());
        JsonArray pair = new JsonArray();
        pair.add(key);
        pair.add(toJson(map.getValueTypeInfo(), one.getValue()));
        pairs.put(key.getAsString(), pair);
      }
      return Worker.list(pairs.values());
    } else if (value instanceof Struct) {
      JsonObject members = new JsonObject();
      Struct struct = (Struct) value;
      for (int i = 0; i < struct.getFieldCount(); i++) {
        TypeInfo member = struct.getFieldTypeInfo(i);
        members.add(struct.getFieldName(i), toJson(member, struct.getFieldValue(i)));
      }
      return members;
    }
    return new JsonPrimitive(value.toString()); // STRING, DATE, JSON
  }

  static Object fromJson(TypeInfo type, JsonElement given) {
    if (given.isJsonNull()) {
      return null;
    }
    switch (type.getOdpsType()) {
      case BIGINT:
        return given.getAsLong();
      case INT:
        return given.getAsInt();
      case SMALLINT:
        return given.getAsShort();
      case TINYINT:
        return given.getAsByte();
      case FLOAT:
        return Float.valueOf(given.getAsString());
      case DOUBLE:
        return Double.valueOf(given.getAsString());
      case BOOLEAN:
        return given.getAsBoolean();
      case CHAR:
        return new Char(given.getAsString(), ((CharTypeInfo) type).getLength());
      case VARCHAR:
        return new Varchar(given.getAsString(), ((VarcharTypeInfo) type).getLength());
      case BINARY:
        return new Binary(HEX.parseHex(given.getAsString()));
      case DECIMAL:
        return new BigDecimal(given.getAsString());
      case DATE:
        return LocalDate.parse(given.getAsString());
      case DATETIME:
        return LocalDateTime.parse(given.getAsString(), TIME).atZone(ZoneOffset.UTC);
      case TIMESTAMP:
        return LocalDateTime.parse(given.getAsString(), TIME).toInstant(ZoneOffset.UTC);
      case TIMESTAMP_NTZ:
        return LocalDateTime.parse(given.getAsString(), TIME);
      case JSON:
        return new SimpleJsonValue(given.getAsString());
      case ARRAY:
        List<Object> list = new ArrayList<>();
        TypeInfo element = ((ArrayTypeInfo) type).getElementTypeInfo();
        given.getAsJsonArray().forEach(one -> list.add(fromJson(element, one)));
        return list;
      case MAP:
        Map<Object, Object> map = new LinkedHashMap<>();
        for (JsonElement pair : given.getAsJsonArray()) {
          JsonArray both = pair.getAsJsonArray();
          Object key = fromJson(((MapTypeInfo) type).getKeyTypeInfo(), both.get(0));
          map.put(key, fromJson(((MapTypeInfo) type).getValueTypeInfo(), both.get(1)));
        }
        return map;
      case STRUCT:
        StructTypeInfo struct = (StructTypeInfo) type;
        List<Object> members = new ArrayList<>();
        for (int i = 0; i < struct.getFieldCount(); i++) {
          JsonElement member = given.getAsJsonObject().get(struct.getFieldNames().get(i));
          members.add(fromJson(struct.getFieldTypeInfos().get(i), member));
        }
        return new SimpleStruct(struct, members);
      default:
        return given.getAsString();
    }
  }
}
