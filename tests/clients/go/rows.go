package main

import (
	"bytes"
	"database/sql"
	"errors"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/aliyun/aliyun-odps-go-sdk/arrow/array"
	"github.com/aliyun/aliyun-odps-go-sdk/arrow/ipc"
	"github.com/aliyun/aliyun-odps-go-sdk/odps"
	"github.com/aliyun/aliyun-odps-go-sdk/odps/data"
	"github.com/aliyun/aliyun-odps-go-sdk/odps/tunnel"
	_ "github.com/aliyun/aliyun-odps-go-sdk/sqldriver"
)

var compressions = map[string]func() tunnel.Option{
	"deflate": tunnel.SessionCfg.WithDefaultDeflateCompressor,
	"zstd":    tunnel.SessionCfg.WithDefaultZstdCompressor,
	"snappy":  tunnel.SessionCfg.WithSnappyFramedCompressor,
}

func options(given job) (found []tunnel.Option) {
	found = append(found, tunnel.SessionCfg.WithSchemaName(given.Schema))
	if given.Partition != "" {
		found = append(found, tunnel.SessionCfg.WithPartitionKey(given.Partition))
	}
	if given.Compression != "" {
		found = append(found, compressions[given.Compression]())
	}
	if given.Create {
		found = append(found, tunnel.SessionCfg.WithCreatePartition())
	}
	if given.Overwrite {
		found = append(found, tunnel.SessionCfg.Overwrite())
	}
	return found
}

// write writes rows in blocks of a batch each, as records or as Arrow.
func write(service *odps.Odps, given job) any {
	client, project := tunnel.NewTunnel(service), service.DefaultProjectName()
	if given.Way == "stream" {
		writeStream(must(client.CreateStreamUploadSession(project, given.Table, options(given)...)), given)
		return nil
	}
	session := must(client.CreateUploadSession(project, given.Table, options(given)...))
	if given.Way == "arrow" {
		check(session.Commit(writeArrow(session, given)))
	} else {
		check(session.Commit(writeRecords(session, given)))
	}
	return nil
}

func writeRecords(session *tunnel.UploadSession, given job) (blocks []int) {
	for from := 0; from < len(given.Rows); from += given.Batch {
		writer := must(session.OpenRecordWriter(len(blocks)))
		for _, row := range given.Rows[from:min(from+given.Batch, len(given.Rows))] {
			check(writer.Write(record(session.Schema().Columns, row)))
		}
		check(writer.Close())
		blocks = append(blocks, len(blocks))
	}
	return blocks
}

func writeArrow(session *tunnel.UploadSession, given job) (blocks []int) {
	batches := must(ipc.NewReader(bytes.NewReader(given.Arrow)))
	for batches.Next() {
		writer := must(session.OpenRecordArrowWriter(len(blocks)))
		rows := batches.Record()
		rows = array.NewRecord(session.ArrowSchema(), rows.Columns(), rows.NumRows())
		check(writer.WriteArrowRecord(rows))
		check(writer.Close())
		blocks = append(blocks, len(blocks))
	}
	check(batches.Err())
	return blocks
}

func writeStream(session *tunnel.StreamUploadSession, given job) {
	writer := session.OpenRecordPackWriter()
	for i, row := range given.Rows {
		check(writer.Append(record(session.Schema().Columns, row)))
		if (i+1)%given.Batch == 0 || i+1 == len(given.Rows) {
			_, _, _, err := writer.Flush()
			check(err)
		}
	}
}

// read reads rows as records (or a preview, which the SDK decodes from Arrow), or an Arrow stream.
func read(service *odps.Odps, given job) any {
	client, rows := tunnel.NewTunnel(service), []any{}
	if given.Way == "preview" {
		for _, one := range must(client.Preview(service.Table(given.Table), given.Partition, -1)) {
			rows = append(rows, cells(one))
		}
		return rows
	}
	session := must(client.CreateDownloadSession(service.DefaultProjectName(), given.Table, options(given)...))
	var stream bytes.Buffer
	var writer *ipc.Writer
	for from := 0; from < session.RecordCount(); from += given.Batch {
		count := min(given.Batch, session.RecordCount()-from)
		if given.Way == "arrow" {
			writer = copyArrow(must(session.OpenRecordArrowReader(from, count, given.Columns)), writer, &stream)
		} else {
			rows = append(rows, all(must(session.OpenRecordReader(from, count, given.Columns)))...)
		}
	}
	if writer != nil {
		check(writer.Close())
		return stream.Bytes()
	}
	return rows
}

func copyArrow(reader *tunnel.RecordArrowReader, writer *ipc.Writer, stream io.Writer) *ipc.Writer {
	for {
		rows, err := reader.Read()
		if errors.Is(err, io.EOF) {
			check(reader.Close())
			return writer
		}
		check(err)
		if writer == nil {
			writer = ipc.NewWriter(stream, ipc.WithSchema(rows.Schema()))
		}
		check(writer.Write(rows))
	}
}

func all(reader *tunnel.RecordProtocReader) []any {
	defer reader.Close()
	rows := []any{}
	for {
		one, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return rows
		}
		check(err)
		rows = append(rows, cells(one))
	}
}

func cells(one data.Record) []any {
	row := []any{}
	for _, cell := range one {
		row = append(row, toJSON(cell))
	}
	return row
}

// arrowSchema returns an Arrow stream without rows, in the types that the SDK writes to a table.
func arrowSchema(service *odps.Odps, given job) any {
	table := service.Table(given.Table)
	check(table.Load())
	schema := table.Schema()
	var stream bytes.Buffer
	check(ipc.NewWriter(&stream, ipc.WithSchema(schema.ToArrowSchema())).Close())
	return stream.Bytes()
}

// runSQL runs a query and reads its result as CSV or over the tunnel, or returns the instance.
func runSQL(service *odps.Odps, given job) any {
	task := odps.NewAnonymousSQLTask(given.Query, nil)
	instance := must(task.Run(service, service.DefaultProjectName()))
	check(instance.WaitForSuccess())
	switch given.Way {
	case "csv":
		return must(must(task.GetSelectResultAsCsv(instance, true)).ReadAll())
	case "tunnel":
		session := must(tunnel.NewTunnel(service).
			CreateInstanceResultDownloadSession(service.DefaultProjectName(), instance.Id()))
		if session.RecordCount() == 0 {
			return []any{}
		}
		return all(must(session.OpenRecordReader(0, session.RecordCount(), 0, given.Columns)))
	}
	return instance.Id()
}

// runDriver runs a statement by database/sql; of a query, it returns the types and the rows.
func runDriver(service *odps.Odps, given job) any {
	address := must(url.Parse(os.Getenv("CLIENT_ENDPOINT")))
	address.User = url.UserPassword(os.Getenv("CLIENT_ID"), os.Getenv("CLIENT_KEY"))
	address.RawQuery = url.Values{"project": {service.DefaultProjectName()}}.Encode()
	db := must(sql.Open("odps", address.String()))
	defer db.Close()
	if given.Way == "exec" {
		_, err := db.Exec(given.Query, given.Args...)
		check(err)
		return nil
	}
	rows := must(db.Query(given.Query, given.Args...))
	defer rows.Close()
	kinds, found := []string{}, [][]any{}
	for _, column := range must(rows.ColumnTypes()) {
		kinds = append(kinds, column.DatabaseTypeName())
	}
	for rows.Next() {
		row, into := make([]any, len(kinds)), make([]any, len(kinds))
		for i := range row {
			into[i] = &row[i]
		}
		check(rows.Scan(into...))
		for i, one := range row {
			if moment, isTime := one.(time.Time); isTime && kinds[i] == "DATE" {
				one = data.Date(moment)
			} else if isTime {
				one = data.DateTime(moment)
			}
			row[i] = toJSON(one)
		}
		found = append(found, row)
	}
	check(rows.Err())
	return map[string]any{"types": kinds, "rows": found}
}
