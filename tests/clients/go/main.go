// A worker with the vendor's Go SDK: reads a JSON job a line, prints a JSON result for each.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"github.com/aliyun/aliyun-odps-go-sdk/odps"
	"github.com/aliyun/aliyun-odps-go-sdk/odps/account"
)

// job has the arguments of every kind of job.
type job struct {
	Job         string
	Calls       [][]json.RawMessage // a method and its arguments, called on the result before
	Get         []string            // methods without arguments, called on the last result
	Schema      string
	Table       string
	Partition   string
	Create      bool
	Overwrite   bool
	Way         string
	Compression string
	Columns     []string
	Rows        [][]any
	Batch       int
	Arrow       []byte // an Arrow IPC stream
	Query       string
	Args        []any
}

// jobs panic with an error, which run returns.
var jobs = map[string]func(*odps.Odps, job) any{
	"call":   call,
	"write":  write,
	"read":   read,
	"schema": arrowSchema,
	"sql":    runSQL,
	"driver": runDriver,
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func run(line []byte) (result any, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("%v", panicked)
			fmt.Fprintf(os.Stderr, "%s%+v\n", line, panicked) // with the SDK's stack trace
		}
	}()
	given := job{Batch: 1 << 30}
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber() // keeps numbers as they are written
	check(decoder.Decode(&given))
	keys := account.NewAliyunAccount(os.Getenv("CLIENT_ID"), os.Getenv("CLIENT_KEY"))
	service := odps.NewOdps(keys, os.Getenv("CLIENT_ENDPOINT"))
	service.SetDefaultProjectName(os.Getenv("CLIENT_PROJECT"))
	service.SetCurrentSchemaName(given.Schema)
	return jobs[given.Job](service, given), nil
}

func main() {
	in, out := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	os.Stdout = os.Stderr // what the client prints
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		answer := map[string]any{}
		if result, err := run(line); err != nil {
			answer["error"] = err.Error()
		} else {
			answer["result"] = result
		}
		check(out.Encode(answer))
	}
}
