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
func call(service *odps.Odps, given job) (any, error) {
	object, listed := reflect.ValueOf(service), []any(nil)
	for _, step := range given.Calls {
		var name string
		if err := json.Unmarshal(step[0], &name); err != nil {
			return nil, err
		}
		next, err := invoke(object, name, step[1:], &listed)
		if err != nil {
			return nil, err
		}
		if next.IsValid() {
			object = next
			if object.Kind() == reflect.Struct { // keep what the next method changes
				object = addressable(object)
			}
		}
	}
	if listed != nil {
		return listed, nil
	}
	if given.Get == nil {
		return shape(object), nil
	}
	told := map[string]any{}
	for _, name := range given.Get {
		value, err := invoke(object, name, nil, &listed)
		if err != nil {
			return nil, err
		}
		told[name] = shape(value)
	}
	return told, nil
}

// invoke calls a method and returns its first result, or no value if it has none but an error.
func invoke(object reflect.Value, name string, args []json.RawMessage, listed *[]any) (reflect.Value, error) {
	method := addressable(object).MethodByName(name)
	if !method.IsValid() {
		return method, fmt.Errorf("%s has no method %s", object.Type(), name)
	}
	in := make([]reflect.Value, len(args))
	for i, one := range args {
		var err error
		if in[i], err = argument(parameter(method.Type(), i), one, listed); err != nil {
			return method, err
		}
	}
	var first reflect.Value
	for _, result := range method.Call(in) {
		if result.Type() != failure {
			first = result
		} else if !result.IsNil() {
			return first, result.Interface().(error)
		}
	}
	return first, nil
}

func parameter(method reflect.Type, i int) reflect.Type {
	if last := method.NumIn() - 1; method.IsVariadic() && i >= last {
		return method.In(last).Elem()
	}
	return method.In(i)
}

func argument(kind reflect.Type, given json.RawMessage, listed *[]any) (reflect.Value, error) {
	if kind == dataType {
		var text string
		if err := json.Unmarshal(given, &text); err != nil {
			return reflect.Value{}, err
		}
		parsed, err := datatype.ParseDataType(text)
		return reflect.ValueOf(&parsed).Elem(), err
	}
	if kind.Kind() != reflect.Func {
		value := reflect.New(kind)
		err := json.Unmarshal(given, value.Interface())
		return value.Elem(), err
	}
	var made []json.RawMessage
	if err := json.Unmarshal(given, &made); err != nil {
		return reflect.Value{}, err
	}
	if len(made) == 0 { // a callback for the elements of a list
		*listed = []any{}
		return reflect.MakeFunc(kind, func(in []reflect.Value) []reflect.Value {
			if last := in[len(in)-1]; last.Type() == failure && !last.IsNil() {
				panic(last.Interface())
			}
			*listed = append(*listed, shape(in[0]))
			return nil
		}), nil
	}
	var name string
	if err := json.Unmarshal(made[0], &name); err != nil {
		return reflect.Value{}, err
	}
	filter := reflect.ValueOf(filters[name])
	in := make([]reflect.Value, filter.Type().NumIn())
	for i := range in {
		value := reflect.New(filter.Type().In(i))
		if err := json.Unmarshal(made[1+i], value.Interface()); err != nil {
			return value, err
		}
		in[i] = value.Elem()
	}
	return filter.Call(in)[0], nil
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
