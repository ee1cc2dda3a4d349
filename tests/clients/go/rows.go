package main

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/aliyun/aliyun-odps-go-sdk/arrow"
	"github.com/aliyun/aliyun-odps-go-sdk/arrow/array"
	"github.com/aliyun/aliyun-odps-go-sdk/arrow/ipc"
	"github.com/aliyun/aliyun-odps-go-sdk/odps"
	"github.com/aliyun/aliyun-odps-go-sdk/odps/data"
	"github.com/aliyun/aliyun-odps-go-sdk/odps/datatype"
	"github.com/aliyun/aliyun-odps-go-sdk/odps/tableschema"
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

func types(schema tableschema.TableSchema) (found []datatype.DataType) {
	for _, column := range schema.Columns {
		found = append(found, column.Type)
	}
	return found
}

// write writes rows in blocks of a batch each, as records or as Arrow.
func write(service *odps.Odps, given job) (any, error) {
	if given.Way == "stream" {
		return nil, writeStream(service, given)
	}
	session, err := tunnel.NewTunnel(service).
		CreateUploadSession(service.DefaultProjectName(), given.Table, options(given)...)
	if err != nil {
		return nil, err
	}
	blocks := []int{}
	if given.Way == "arrow" {
		blocks, err = writeArrow(session, given)
	} else {
		blocks, err = writeRecords(session, given)
	}
	if err != nil {
		return nil, err
	}
	return nil, session.Commit(blocks)
}

func writeRecords(session *tunnel.UploadSession, given job) (blocks []int, err error) {
	for from := 0; from < len(given.Rows); from += given.Batch {
		writer, err := session.OpenRecordWriter(len(blocks))
		if err != nil {
			return nil, err
		}
		for _, row := range given.Rows[from:min(from+given.Batch, len(given.Rows))] {
			cells, err := record(types(session.Schema()), row)
			if err != nil {
				return nil, err
			}
			if err := writer.Write(cells); err != nil {
				return nil, err
			}
		}
		if err := writer.Close(); err != nil {
			return nil, err
		}
		blocks = append(blocks, len(blocks))
	}
	return blocks, nil
}

func writeArrow(session *tunnel.UploadSession, given job) (blocks []int, err error) {
	batches, err := ipc.NewReader(bytes.NewReader(given.Arrow))
	if err != nil {
		return nil, err
	}
	for batches.Next() {
		writer, err := session.OpenRecordArrowWriter(len(blocks))
		if err != nil {
			return nil, err
		}
		rows := batches.Record()
		rows = array.NewRecord(session.ArrowSchema(), rows.Columns(), rows.NumRows())
		if err := writer.WriteArrowRecord(rows); err != nil {
			return nil, err
		}
		if err := writer.Close(); err != nil {
			return nil, err
		}
		blocks = append(blocks, len(blocks))
	}
	return blocks, batches.Err()
}

func writeStream(service *odps.Odps, given job) error {
	session, err := tunnel.NewTunnel(service).
		CreateStreamUploadSession(service.DefaultProjectName(), given.Table, options(given)...)
	if err != nil {
		return err
	}
	writer := session.OpenRecordPackWriter()
	for i, row := range given.Rows {
		cells, err := record(types(*session.Schema()), row)
		if err != nil {
			return err
		}
		if err := writer.Append(cells); err != nil {
			return err
		}
		if (i+1)%given.Batch == 0 || i+1 == len(given.Rows) {
			if _, _, _, err := writer.Flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// read reads rows as records (or a preview, which the SDK decodes from Arrow), or an Arrow stream.
func read(service *odps.Odps, given job) (any, error) {
	client := tunnel.NewTunnel(service)
	if given.Way == "preview" {
		rows, err := client.Preview(service.Table(given.Table), given.Partition, -1)
		return cellsOf(rows), err
	}
	session, err := client.
		CreateDownloadSession(service.DefaultProjectName(), given.Table, options(given)...)
	if err != nil {
		return nil, err
	}
	if given.Way == "arrow" {
		return readArrow(session, given)
	}
	rows := []any{}
	for from := 0; from < session.RecordCount(); from += given.Batch {
		count := min(given.Batch, session.RecordCount()-from)
		reader, err := session.OpenRecordReader(from, count, given.Columns)
		if err != nil {
			return nil, err
		}
		part, err := all(reader)
		if err != nil {
			return nil, err
		}
		rows = append(rows, part...)
	}
	return rows, nil
}

func all(reader *tunnel.RecordProtocReader) ([]any, error) {
	defer reader.Close()
	rows := []any{}
	for {
		one, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return nil, err
		}
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

func cellsOf(records []data.Record) [][]any {
	rows := [][]any{}
	for _, one := range records {
		rows = append(rows, cells(one))
	}
	return rows
}

func readArrow(session *tunnel.DownloadSession, given job) ([]byte, error) {
	var stream bytes.Buffer
	var writer *ipc.Writer
	for from := 0; from < session.RecordCount(); from += given.Batch {
		reader, err := session.OpenRecordArrowReader(from, min(given.Batch, session.RecordCount()-from), given.Columns)
		if err != nil {
			return nil, err
		}
		for {
			rows, err := reader.Read()
			if errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			if writer == nil {
				writer = ipc.NewWriter(&stream, ipc.WithSchema(rows.Schema()))
			}
			if err := writer.Write(rows); err != nil {
				return nil, err
			}
		}
		if err := reader.Close(); err != nil {
			return nil, err
		}
	}
	if writer == nil {
		return nil, errors.New("no rows")
	}
	return stream.Bytes(), writer.Close()
}

// arrowSchema returns an Arrow stream without rows, in the types that the SDK writes to a table.
func arrowSchema(service *odps.Odps, given job) (any, error) {
	table := service.Table(given.Table)
	if err := table.Load(); err != nil {
		return nil, err
	}
	schema := table.Schema()
	var stream bytes.Buffer
	var found *arrow.Schema = schema.ToArrowSchema()
	err := ipc.NewWriter(&stream, ipc.WithSchema(found)).Close()
	return stream.Bytes(), err
}

// runSQL runs a query and reads its result as CSV or over the tunnel.
func runSQL(service *odps.Odps, given job) (any, error) {
	task := odps.NewAnonymousSQLTask(given.Query, given.Hints)
	instance, err := task.Run(service, service.DefaultProjectName())
	if err != nil {
		return nil, err
	}
	if err := instance.WaitForSuccess(); err != nil {
		return nil, err
	}
	switch given.Way {
	case "csv":
		reader, err := task.GetSelectResultAsCsv(instance, true)
		if err != nil {
			return nil, err
		}
		return reader.ReadAll()
	case "tunnel":
		session, err := tunnel.NewTunnel(service).
			CreateInstanceResultDownloadSession(service.DefaultProjectName(), instance.Id())
		if err != nil || session.RecordCount() == 0 {
			return []any{}, err
		}
		reader, err := session.OpenRecordReader(0, session.RecordCount(), 0, given.Columns)
		if err != nil {
			return nil, err
		}
		return all(reader)
	}
	return instance.Id(), nil
}

// runDriver runs a statement by database/sql; of a query, it returns the types and the rows.
func runDriver(service *odps.Odps, given job) (any, error) {
	address, err := url.Parse(os.Getenv("CLIENT_ENDPOINT"))
	if err != nil {
		return nil, err
	}
	address.User = url.UserPassword(os.Getenv("CLIENT_ID"), os.Getenv("CLIENT_KEY"))
	address.RawQuery = url.Values{"project": {service.DefaultProjectName()}}.Encode()
	db, err := sql.Open("odps", address.String())
	if err != nil {
		return nil, err
	}
	defer db.Close()
	args := make([]any, len(given.Args))
	for i, one := range given.Args {
		args[i] = fmt.Sprint(one)
	}
	if given.Way == "exec" {
		_, err := db.Exec(given.Query, args...)
		return nil, err
	}
	rows, err := db.Query(given.Query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	kinds, found := []string{}, [][]any{}
	for _, column := range columns {
		kinds = append(kinds, column.DatabaseTypeName())
	}
	for rows.Next() {
		row, into := make([]any, len(kinds)), make([]any, len(kinds))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		for i, one := range row {
			if moment, isTime := one.(time.Time); isTime && kinds[i] == "DATE" {
				row[i] = toJSON(data.Date(moment))
			} else if isTime {
				row[i] = toJSON(data.DateTime(moment))
			} else {
				row[i] = toJSON(one)
			}
		}
		found = append(found, row)
	}
	return map[string]any{"types": kinds, "rows": found}, rows.Err()
}
