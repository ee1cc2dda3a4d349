package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/aliyun/aliyun-odps-go-sdk/odps"
	"github.com/aliyun/aliyun-odps-go-sdk/odps/datatype"
	"github.com/aliyun/aliyun-odps-go-sdk/odps/tableschema"
)

// filters by the name that a job gives with its argument, such as ["Tables.NamePrefix", "a"].
var filters = map[string]any{
	"Tables.NamePrefix":   odps.TableFilter.NamePrefix,
	"Tables.Owner":        odps.TableFilter.Owner,
	"Tables.Type":         func(s string) odps.TFilterFunc { return odps.TableFilter.Type(odps.TableTypeFromStr(s)) },
	"Schemas.NamePrefix":  odps.SchemaFilter.NamePrefix,
	"Projects.NamePrefix": odps.ProjectFilter.NamePrefix,
	"Instances.OnlyOwner": odps.InstanceFilter.OnlyOwner,
	"Instances.Status":    func(s string) odps.InsFilterFunc { return odps.InstanceFilter.Status(odps.InstancesStatusFromStr(s)) },
}

var (
	failure  = reflect.TypeOf((*error)(nil)).Elem()
	dataType = reflect.TypeOf((*datatype.DataType)(nil)).Elem()
)

// call calls methods of the SDK by name, each on the result of the one before.
func call(service *odps.Odps, given job) any {
	object, listed := reflect.ValueOf(service), []any(nil)
	for _, step := range given.Calls {
		var name string
		check(json.Unmarshal(step[0], &name))
		next := invoke(object, name, step[1:], &listed)
		if next.IsValid() {
			object = next
			if object.Kind() == reflect.Struct { // keep what the next method changes
				object = addressable(object)
			}
		}
	}
	if listed != nil {
		return listed
	}
	if given.Get == nil {
		return shape(object)
	}
	told := map[string]any{}
	for _, name := range given.Get {
		told[name] = shape(invoke(object, name, nil, &listed))
	}
	return told
}

// invoke calls a method and returns its first result, or no value if it has none but an error.
func invoke(object reflect.Value, name string, args []json.RawMessage, listed *[]any) (first reflect.Value) {
	method := addressable(object).MethodByName(name)
	if !method.IsValid() {
		panic(fmt.Sprintf("%s has no method %s", object.Type(), name))
	}
	in := make([]reflect.Value, len(args))
	for i, one := range args {
		in[i] = argument(parameter(method.Type(), i), one, listed)
	}
	for _, result := range method.Call(in) {
		if result.Type() != failure {
			first = result
		} else if !result.IsNil() {
			panic(result.Interface())
		}
	}
	return first
}

func parameter(method reflect.Type, i int) reflect.Type {
	if last := method.NumIn() - 1; method.IsVariadic() && i >= last {
		return method.In(last).Elem()
	}
	return method.In(i)
}

func parsed(kind reflect.Type, given json.RawMessage) reflect.Value {
	value := reflect.New(kind)
	check(json.Unmarshal(given, value.Interface()))
	return value.Elem()
}

func argument(kind reflect.Type, given json.RawMessage, listed *[]any) reflect.Value {
	if kind == dataType {
		text := parsed(reflect.TypeOf(""), given).String()
		return reflect.ValueOf(must(datatype.ParseDataType(text)))
	}
	if kind.Kind() != reflect.Func {
		return parsed(kind, given)
	}
	var made []json.RawMessage
	check(json.Unmarshal(given, &made))
	if len(made) == 0 { // a callback for the elements of a list
		*listed = []any{}
		return reflect.MakeFunc(kind, func(in []reflect.Value) []reflect.Value {
			if last := in[len(in)-1]; last.Type() == failure && !last.IsNil() {
				panic(last.Interface())
			}
			*listed = append(*listed, shape(in[0]))
			return nil
		})
	}
	filter := reflect.ValueOf(filters[parsed(reflect.TypeOf(""), made[0]).String()])
	in := make([]reflect.Value, filter.Type().NumIn())
	for i := range in {
		in[i] = parsed(filter.Type().In(i), made[1+i])
	}
	return filter.Call(in)[0]
}

func addressable(value reflect.Value) reflect.Value {
	if value.Kind() == reflect.Interface {
		value = value.Elem()
	}
	if value.Kind() == reflect.Pointer {
		return value
	}
	pointer := reflect.New(value.Type())
	pointer.Elem().Set(value)
	return pointer
}

// shape returns a value that JSON can show: names of objects, texts of constants, Unix times.
func shape(value reflect.Value) any {
	if !value.IsValid() || (value.Kind() == reflect.Pointer && value.IsNil()) {
		return nil
	}
	switch known := value.Interface().(type) {
	case []byte:
		return string(known)
	case time.Time:
		return known.Unix()
	case tableschema.TableSchema:
		return shape(reflect.ValueOf(append(known.Columns, known.PartitionColumns...)))
	case tableschema.Column:
		return []any{known.Name, known.Type.Name(), known.Comment, !known.NotNull}
	}
	if value.Kind() == reflect.Slice {
		list := make([]any, value.Len())
		for i := range list {
			list[i] = shape(value.Index(i))
		}
		return list
	}
	switch object := addressable(value).Interface().(type) {
	case interface{ Name() string }:
		return object.Name()
	case interface{ Id() string }:
		return object.Id()
	case fmt.Stringer:
		return object.String()
	}
	return value.Interface()
}
