package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/aliyun/aliyun-odps-go-sdk/odps/data"
	"github.com/aliyun/aliyun-odps-go-sdk/odps/datatype"
)

// Cells as JSON: bytes as hex, decimals and times (in UTC) as text, maps as sorted pairs.

const (
	timeFormat = "2006-01-02 15:04:05.000000000"
	dateFormat = "2006-01-02"
)

// decode keeps numbers as they are written.
func decode(line []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	return decoder.Decode(into)
}

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
	case data.DateTime:
		return value.Time().UTC().Format(timeFormat)
	case data.Timestamp:
		return value.Time().UTC().Format(timeFormat)
	case data.TimestampNtz:
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

func fromJSON(kind datatype.DataType, given any) (data.Data, error) {
	if given == nil {
		return nil, nil
	}
	switch kind := kind.(type) {
	case datatype.ArrayType:
		list := data.NewArrayWithType(kind)
		for _, one := range given.([]any) {
			element, err := fromJSON(kind.ElementType, one)
			if err != nil {
				return nil, err
			}
			list.UnSafeAppend(element)
		}
		return list, nil
	case datatype.MapType:
		pairs := data.NewMapWithType(kind)
		for _, one := range given.([]any) {
			pair := one.([]any)
			key, err := fromJSON(kind.KeyType, pair[0])
			if err != nil {
				return nil, err
			}
			value, err := fromJSON(kind.ValueType, pair[1])
			if err != nil {
				return nil, err
			}
			if err := pairs.Set(key, value); err != nil {
				return nil, err
			}
		}
		return pairs, nil
	case datatype.StructType:
		members := data.NewStructWithTyp(kind)
		for _, field := range kind.Fields {
			member, err := fromJSON(field.Type, given.(map[string]any)[field.Name])
			if err != nil {
				return nil, err
			}
			if err := members.SetField(field.Name, member); err != nil {
				return nil, err
			}
		}
		return members, nil
	case datatype.DecimalType:
		return data.NewDecimal(int(kind.Precision), int(kind.Scale), given.(string)), nil
	case datatype.CharType:
		return data.MakeChar(kind.Length, given.(string))
	case datatype.VarcharType:
		return data.MakeVarChar(kind.Length, given.(string))
	}
	return simple(kind.ID(), given)
}

func simple(kind datatype.TypeID, given any) (data.Data, error) {
	text := fmt.Sprint(given)
	switch kind {
	case datatype.BOOLEAN:
		return data.Bool(given.(bool)), nil
	case datatype.BIGINT:
		number, err := strconv.ParseInt(text, 10, 64)
		return data.BigInt(number), err
	case datatype.INT:
		number, err := strconv.ParseInt(text, 10, 32)
		return data.Int(number), err
	case datatype.SMALLINT:
		number, err := strconv.ParseInt(text, 10, 16)
		return data.SmallInt(number), err
	case datatype.TINYINT:
		number, err := strconv.ParseInt(text, 10, 8)
		return data.TinyInt(number), err
	case datatype.FLOAT:
		number, err := strconv.ParseFloat(text, 32)
		return data.Float(number), err
	case datatype.DOUBLE:
		number, err := strconv.ParseFloat(text, 64)
		return data.Double(number), err
	case datatype.STRING:
		return data.String(text), nil
	case datatype.JSON:
		return &data.Json{Data: text, Valid: true}, nil
	case datatype.BINARY:
		content, err := hex.DecodeString(text)
		return data.Binary(content), err
	case datatype.DATE:
		day, err := time.Parse(dateFormat, text)
		return data.Date(day), err
	}
	moment, err := time.Parse(timeFormat, text)
	switch kind {
	case datatype.DATETIME:
		return data.DateTime(moment), err
	case datatype.TIMESTAMP:
		return data.Timestamp(moment), err
	case datatype.TIMESTAMP_NTZ:
		return data.TimestampNtz(moment), err
	}
	return nil, fmt.Errorf("no values of type %v", kind)
}

func record(columns []datatype.DataType, row []any) (data.Record, error) {
	cells := data.NewRecord(len(columns))
	for i, one := range row {
		cell, err := fromJSON(columns[i], one)
		if err != nil {
			return nil, err
		}
		cells[i] = cell
	}
	return cells, nil
}
