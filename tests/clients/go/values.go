package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/aliyun/aliyun-odps-go-sdk/odps/data"
	"github.com/aliyun/aliyun-odps-go-sdk/odps/datatype"
	"github.com/aliyun/aliyun-odps-go-sdk/odps/tableschema"
)

// Cells as JSON: bytes as hex, decimals and times (in UTC) as text, maps as sorted pairs.

const (
	timeFormat = "2006-01-02 15:04:05.000000000"
	dateFormat = "2006-01-02"
)

func toJSON(value any) any {
	switch value := value.(type) {
	case nil, data.NullData:
		return nil
	case float32:
		return toJSON(float64(value))
	case data.Float:
		return toJSON(float64(value))
	case data.Double:
		return toJSON(float64(value))
	case float64:
		switch {
		case math.IsInf(value, 0):
			return map[bool]string{true: "Infinity", false: "-Infinity"}[value > 0]
		case math.IsNaN(value):
			return "NaN"
		}
		return value
	case []byte:
		return hex.EncodeToString(value)
	case data.Binary:
		return hex.EncodeToString(value)
	case data.Date:
		return value.Time().UTC().Format(dateFormat)
	case interface{ Time() time.Time }: // DATETIME, TIMESTAMP, TIMESTAMP_NTZ
		return value.Time().UTC().Format(timeFormat)
	case *data.Array:
		list := []any{}
		for _, one := range value.ToSlice() {
			list = append(list, toJSON(one))
		}
		return list
	case *data.Map:
		pairs := [][2]any{}
		for key, one := range value.ToGoMap() {
			pairs = append(pairs, [2]any{toJSON(key), toJSON(one)})
		}
		sort.Slice(pairs, func(i, j int) bool { return fmt.Sprint(pairs[i]) < fmt.Sprint(pairs[j]) })
		return pairs
	case *data.Struct:
		members := map[string]any{}
		for _, field := range value.Fields() {
			members[field.Name] = toJSON(field.Value)
		}
		return members
	case *data.Decimal:
		text := value.String()
		if strings.Contains(text, ".") {
			text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
		}
		return text
	case data.Bool, data.BigInt, data.Int, data.SmallInt, data.TinyInt:
		return value
	case data.Data:
		return value.String() // STRING, CHAR, VARCHAR, JSON
	}
	return value
}

var simple = map[datatype.TypeID]data.Data{
	datatype.BOOLEAN:  data.Bool(false),
	datatype.BIGINT:   data.BigInt(0),
	datatype.INT:      data.Int(0),
	datatype.SMALLINT: data.SmallInt(0),
	datatype.TINYINT:  data.TinyInt(0),
	datatype.STRING:   data.String(""),
}

func fromJSON(kind datatype.DataType, given any) data.Data {
	if given == nil {
		return nil
	}
	text := fmt.Sprint(given)
	switch kind := kind.(type) {
	case datatype.ArrayType:
		list := data.NewArrayWithType(kind)
		for _, one := range given.([]any) {
			list.UnSafeAppend(fromJSON(kind.ElementType, one))
		}
		return list
	case datatype.MapType:
		pairs := data.NewMapWithType(kind)
		for _, one := range given.([]any) {
			pair := one.([]any)
			check(pairs.Set(fromJSON(kind.KeyType, pair[0]), fromJSON(kind.ValueType, pair[1])))
		}
		return pairs
	case datatype.StructType:
		members := data.NewStructWithTyp(kind)
		for _, field := range kind.Fields {
			member := given.(map[string]any)[field.Name]
			check(members.SetField(field.Name, fromJSON(field.Type, member)))
		}
		return members
	case datatype.DecimalType:
		return data.NewDecimal(int(kind.Precision), int(kind.Scale), text)
	case datatype.CharType:
		return must(data.MakeChar(kind.Length, text))
	case datatype.VarcharType:
		return must(data.MakeVarChar(kind.Length, text))
	}
	switch kind.ID() {
	case datatype.FLOAT:
		return data.Float(must(strconv.ParseFloat(text, 32)))
	case datatype.DOUBLE:
		return data.Double(must(strconv.ParseFloat(text, 64)))
	case datatype.JSON:
		return &data.Json{Data: text, Valid: true}
	case datatype.BINARY:
		return data.Binary(must(hex.DecodeString(text)))
	case datatype.DATE:
		return data.Date(must(time.Parse(dateFormat, text)))
	case datatype.DATETIME:
		return data.DateTime(must(time.Parse(timeFormat, text)))
	case datatype.TIMESTAMP:
		return data.Timestamp(must(time.Parse(timeFormat, text)))
	case datatype.TIMESTAMP_NTZ:
		return data.TimestampNtz(must(time.Parse(timeFormat, text)))
	}
	value := parsed(reflect.TypeOf(simple[kind.ID()]), must(json.Marshal(given)))
	return value.Interface().(data.Data)
}

func record(columns []tableschema.Column, row []any) data.Record {
	cells := data.NewRecord(len(columns))
	for i, one := range row {
		cells[i] = fromJSON(columns[i].Type, one)
	}
	return cells
}
