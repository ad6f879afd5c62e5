package db

import (
	"database/sql/driver"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// InsertMany inserts one row for each item. insert is "INSERT INTO table (columns)", constant in the code;
// values returns the values of an item in the order of the columns; after follows the rows, for example
// "ON CONFLICT DO NOTHING", and may be empty. Rows are inserted in the order of items.
//
// The texts of its statements are few, so that connections keep them prepared: on PostgreSQL there is one for
// a single row and one for any larger number, on SQLite one for each power of two up to a limit.
func InsertMany[T any](q *Q, insert string, items []T, values func(T) []any, after string) error {
	return insertMany(q, q.exec, insert, items, values, after)
}

// InsertLater is InsertMany with the statements run by [Q.Later].
func InsertLater[T any](q *Q, insert string, items []T, values func(T) []any, after string) error {
	return insertMany(q, q.Later, insert, items, values, after)
}

// exec is Exec without the number of rows.
func (q *Q) exec(query string, args ...any) error {
	_, err := q.Exec(query, args...)
	return err
}

func insertMany[T any](q *Q, exec func(query string, args ...any) error, insert string, items []T, values func(T) []any, after string) error {
	rows := make([][]any, len(items))
	for i, item := range items {
		rows[i] = values(item)
	}
	if q.engine == PostgreSQL && len(rows) > 1 {
		return q.insertArrays(exec, insert, rows, after)
	}
	for len(rows) > 0 {
		n := chunkSize(len(rows), len(rows[0]))
		args := make([]any, 0, n*len(rows[0]))
		for _, row := range rows[:n] {
			args = append(args, row...)
		}
		if err := exec(insertText(q.engine, insert, n, len(rows[0]), after), args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

const (
	maxInsertRows = 64
	// maxInsertArgs is far below what SQLite takes: longer statements cost more to parse than they save.
	maxInsertArgs = 2048
)

// chunkSize returns how many of n rows the next statement inserts: a power of two.
func chunkSize(n, width int) int {
	size := maxInsertRows
	for size > 1 && (size > n || size*width > maxInsertArgs) {
		size /= 2
	}
	return size
}

// insertText returns a statement that inserts rows. On SQLite its parameters have no names: the driver looks each name
// up among all of them, which takes most of the time of a statement with hundreds.
func insertText(engine Engine, insert string, rows, width int, after string) string {
	var b strings.Builder
	b.WriteString(insert)
	b.WriteString(" VALUES ")
	for i := range rows * width {
		switch {
		case i == 0:
			b.WriteByte('(')
		case i%width == 0:
			b.WriteString("), (")
		default:
			b.WriteString(", ")
		}
		if engine == SQLite {
			b.WriteByte('?')
			continue
		}
		b.WriteByte('$')
		b.WriteString(strconv.Itoa(i + 1))
	}
	b.WriteString(") ")
	b.WriteString(after)
	return b.String()
}

// insertArrays inserts rows with one statement whose parameters are an array for each column.
func (q *Q) insertArrays(exec func(query string, args ...any) error, insert string, rows [][]any, after string) error {
	if q.err != nil {
		return q.err
	}
	types, err := q.types.of(q, insert)
	if err != nil {
		return q.failed(err)
	}
	from, args, err := arrays(1, types, rows)
	if err != nil {
		return err
	}
	return exec(insert+" "+from+" "+after, args...)
}

// Values returns a SELECT that yields rows, for WITH name (columns) AS (…), and its arguments: those of the
// parameters from $n on. types are the PostgreSQL types of the columns: text, bigint or boolean. The text is
// the same for any number of rows, none included.
func (q *Q) Values(n int, types []string, rows [][]any) (query string, args []any, err error) {
	if q.engine == PostgreSQL {
		return arrays(n, types, rows)
	}
	plain := make([][]any, len(rows))
	for i, row := range rows {
		plain[i] = make([]any, len(row))
		for j, v := range row {
			if plain[i][j], err = driver.DefaultParameterConverter.ConvertValue(v); err != nil {
				return "", nil, err
			}
		}
	}
	columns := make([]string, len(types))
	for i := range types {
		columns[i] = fmt.Sprintf("value ->> %d", i)
	}
	return fmt.Sprintf("SELECT %s FROM json_each($%d)", strings.Join(columns, ", "), n), []any{JSON(plain)}, nil
}

// arrays returns a SELECT that yields rows out of one array for each column, and the arrays.
func arrays(n int, types []string, rows [][]any) (query string, args []any, err error) {
	parameters := make([]string, len(types))
	args = make([]any, len(types))
	for i, kind := range types {
		parameters[i] = fmt.Sprintf("$%d::%s[]", n+i, kind)
		if args[i], err = array(kind, rows, i); err != nil {
			return "", nil, err
		}
	}
	return `SELECT * FROM unnest(` + strings.Join(parameters, ", ") + `)`, args, nil
}

// array returns the values of one column as a slice that the PostgreSQL driver takes for an array of a type.
func array(kind string, rows [][]any, column int) (any, error) {
	switch kind {
	case "text":
		return columnOf[string](rows, column)
	case "bigint":
		return columnOf[int64](rows, column)
	case "boolean":
		return columnOf[bool](rows, column)
	case "bytea":
		return columnOf[[]byte](rows, column)
	}
	return nil, fmt.Errorf("db: rows with a column of type %s cannot be inserted together", kind)
}

func columnOf[T any](rows [][]any, column int) ([]*T, error) {
	all := make([]*T, len(rows))
	for i, row := range rows {
		v, err := driver.DefaultParameterConverter.ConvertValue(row[column])
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		one, ok := v.(T)
		if !ok {
			return nil, fmt.Errorf("db: column %d of an insert is %T, not %T", column+1, v, one)
		}
		all[i] = &one
	}
	return all, nil
}

// columnTypes caches the types of the columns of insert statements, by their texts. A type of a column never
// changes while a process runs.
type columnTypes struct{ cached sync.Map }

var insertSyntax = regexp.MustCompile(`^\s*INSERT INTO (\w+)(?: AS \w+)? \(([\w\s,]+)\)\s*$`)

// of returns the types of the columns of an insert. It queries the database once per text, without calling
// OnStatement.
func (c *columnTypes) of(q *Q, insert string) ([]string, error) {
	if types, ok := c.cached.Load(insert); ok {
		return types.([]string), nil
	}
	parts := insertSyntax.FindStringSubmatch(insert)
	if parts == nil {
		return nil, fmt.Errorf("db: not of the form INSERT INTO table (columns): %s", insert)
	}
	known, err := tableTypes(q, parts[1])
	if err != nil {
		return nil, err
	}
	var types []string
	for column := range strings.SplitSeq(parts[2], ",") {
		kind, ok := known[strings.TrimSpace(column)]
		switch {
		case !ok:
			return nil, fmt.Errorf("db: table %s has no column %s", parts[1], strings.TrimSpace(column))
		case kind == "integer":
			kind = "bigint" // which PostgreSQL converts
		}
		types = append(types, kind)
	}
	c.cached.Store(insert, types)
	return types, nil
}

func tableTypes(q *Q, table string) (map[string]string, error) {
	rows, err := q.conn.query(q.run, `
		SELECT attname, format_type(atttypid, NULL) FROM pg_attribute
		WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`, []any{table})
	if err != nil {
		return nil, err
	}
	defer q.conn.closeRows(rows)
	types := map[string]string{}
	for rows.Next() {
		var column, kind string
		if err := rows.Scan(&column, &kind); err != nil {
			return nil, err
		}
		types[column] = kind
	}
	return types, rows.Err()
}
