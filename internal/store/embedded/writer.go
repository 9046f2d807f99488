package embedded

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"

	modernc "modernc.org/sqlite"
)

// writer is the one connection that writes. It speaks to the driver directly:
// a pool in between costs as much as the insert itself, and might hand out
// another connection. Its statements run without a context, so that no
// transaction is ever cut in the middle. Not safe for concurrent use.
type writer struct {
	conn  driver.Conn
	stmts map[string]driver.Stmt
	args  []driver.NamedValue
}

func openWriter(ctx context.Context, dsn string) (*writer, error) {
	c, err := modernc.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	conn, err := c.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &writer{conn: conn, stmts: map[string]driver.Stmt{}}, nil
}

func (w *writer) close() error {
	var errs []error
	for _, st := range w.stmts {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, w.conn.Close())...)
}

// prepare keeps every statement: their texts are a small fixed set.
func (w *writer) prepare(query string) (driver.Stmt, error) {
	if st, ok := w.stmts[query]; ok {
		return st, nil
	}
	st, err := w.conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	w.stmts[query] = st
	return st, nil
}

func (w *writer) bind(values []driver.Value) []driver.NamedValue {
	w.args = w.args[:0]
	for i, v := range values {
		w.args = append(w.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return w.args
}

// exec runs one statement and returns how many rows it changed.
func (w *writer) exec(query string, values ...driver.Value) (int64, error) {
	st, err := w.prepare(query)
	if err != nil {
		return 0, err
	}
	defer clear(w.args) // keep no body alive
	res, err := st.(driver.StmtExecContext).ExecContext(context.Background(), w.bind(values))
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// row runs a query and returns its first row, or nil.
func (w *writer) row(query string, values ...driver.Value) (_ []driver.Value, err error) {
	st, err := w.prepare(query)
	if err != nil {
		return nil, err
	}
	rows, err := st.(driver.StmtQueryContext).QueryContext(context.Background(), w.bind(values))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out := make([]driver.Value, len(rows.Columns()))
	if err := rows.Next(out); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return out, nil
}

// errStuck: a transaction can be neither committed nor rolled back.
var errStuck = errors.New("the transaction cannot be rolled back")

// tx runs fn in an immediate transaction: all of it is committed and synced, or
// none of it.
func (w *writer) tx(fn func() error) error {
	if _, err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := fn()
	if err == nil {
		_, err = w.exec("COMMIT")
	}
	if err != nil {
		return errors.Join(err, w.rollback())
	}
	return nil
}

// rollback ends the transaction. Some failures have ended it already: then
// ROLLBACK itself fails, and that a new transaction begins proves it.
func (w *writer) rollback() error {
	_, err := w.exec("ROLLBACK")
	if err == nil {
		return nil
	}
	if _, berr := w.exec("BEGIN IMMEDIATE"); berr != nil {
		return fmt.Errorf("%w: %w: %w", errStuck, err, berr)
	}
	if _, err = w.exec("ROLLBACK"); err != nil {
		return fmt.Errorf("%w: %w", errStuck, err)
	}
	return nil
}
