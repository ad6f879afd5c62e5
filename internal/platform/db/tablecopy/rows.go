package tablecopy

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"

	"stackyard/internal/platform/db"
)

// A row is encoded value by value, in the order of the columns: a tag, and what the kind needs.
const (
	tagNull  = 0
	tagFalse = 1
	tagTrue  = 2
	tagInt   = 3 // a signed varint
	tagText  = 4 // length and bytes
	tagBytes = 5 // length and bytes
)

// row scans rows of a table and encodes them.
type row struct {
	columns []db.Column
	targets []any
}

func newRow(t db.Table) *row {
	r := &row{columns: t.Columns}
	for _, c := range t.Columns {
		switch c.Kind {
		case db.BooleanColumn:
			r.targets = append(r.targets, new(sql.NullBool))
		case db.IntegerColumn:
			r.targets = append(r.targets, new(sql.NullInt64))
		case db.TextColumn:
			r.targets = append(r.targets, new(sql.NullString))
		default:
			r.targets = append(r.targets, new(sql.Null[[]byte]))
		}
	}
	return r
}

func (r *row) appendTo(b []byte) ([]byte, error) {
	for i, target := range r.targets {
		switch v := target.(type) {
		case *sql.NullBool:
			switch {
			case !v.Valid:
				b = append(b, tagNull)
			case v.Bool:
				b = append(b, tagTrue)
			default:
				b = append(b, tagFalse)
			}
		case *sql.NullInt64:
			if !v.Valid {
				b = append(b, tagNull)
				continue
			}
			b = binary.AppendVarint(append(b, tagInt), v.Int64)
		case *sql.NullString:
			if !v.Valid {
				b = append(b, tagNull)
				continue
			}
			b = binary.AppendUvarint(append(b, tagText), uint64(len(v.String)))
			b = append(b, v.String...)
		case *sql.Null[[]byte]:
			if !v.Valid {
				b = append(b, tagNull)
				continue
			}
			b = binary.AppendUvarint(append(b, tagBytes), uint64(len(v.V)))
			b = append(b, v.V...)
		default:
			return b, fmt.Errorf("column %s cannot be encoded", r.columns[i].Name)
		}
	}
	return b, nil
}

var errDamaged = errors.New("a chunk of rows is damaged")

// decode returns the rows of a chunk.
func decode(t db.Table, chunk []byte) (rows [][]any, err error) {
	for len(chunk) > 0 {
		values := make([]any, len(t.Columns))
		for i, c := range t.Columns {
			if values[i], chunk, err = decodeValue(c.Kind, chunk); err != nil {
				return nil, err
			}
		}
		rows = append(rows, values)
	}
	return rows, nil
}

func decodeValue(kind db.Kind, b []byte) (value any, rest []byte, err error) {
	if len(b) == 0 {
		return nil, nil, errDamaged
	}
	tag, b := b[0], b[1:]
	switch {
	case tag == tagNull:
		return nil, b, nil
	case kind == db.BooleanColumn && (tag == tagFalse || tag == tagTrue):
		return tag == tagTrue, b, nil
	case kind == db.IntegerColumn && tag == tagInt:
		n, size := binary.Varint(b)
		if size <= 0 {
			return nil, nil, errDamaged
		}
		return n, b[size:], nil
	case kind == db.TextColumn && tag == tagText, kind == db.BytesColumn && tag == tagBytes:
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return nil, nil, errDamaged
		}
		content, rest := b[size:size+int(n)], b[size+int(n):]
		if kind == db.TextColumn {
			return string(content), rest, nil
		}
		return append([]byte{}, content...), rest, nil
	}
	return nil, nil, errDamaged
}
