package embedded_test

import (
	"bytes"
	"context"
	"database/sql/driver"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	modernc "modernc.org/sqlite"

	"github.com/steadyfleet/steady/internal/core/clock"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store/embedded"
	"github.com/steadyfleet/steady/internal/testkit"
)

var benchBatches = []int{1, 100, 1000}

// benchEntries makes the i-th batch: 200-byte bodies of 10,000 hosts.
func benchEntries(rng *rand.Rand, body []byte, i, n int) []event.Entry {
	batch := make([]event.Entry, n)
	for j := range batch {
		batch[j] = event.Entry{
			At: clock.Instant(i), Type: "host-activated", Subject: event.HostSubject(fmt.Sprintf("host-%05d", rng.IntN(10_000))),
			Incarnation: 1, HostSeq: uint64(i*n + j + 1), Body: body,
		}
	}
	return batch
}

// BenchmarkAppend measures durable appends, and in the same run and directory
// the raw rate: the same columns without hash, head, lease and indexes, into a
// plain table of the same kind of file, in statements of one row and of 32; the
// faster counts. The two take turns, so that a change of the machine's load
// meets both. Metrics: events/s, raw-rows/s, and their ratio.
func BenchmarkAppend(b *testing.B) {
	for _, n := range benchBatches {
		b.Run(fmt.Sprintf("batch=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			st, err := embedded.Open(b.Context(), dir, embedded.Options{})
			testkit.Must(b, err)
			defer st.Close()
			head, err := st.Acquire(b.Context(), "bench", 1)
			testkit.Must(b, err)
			single, multi := openRaw(b, filepath.Join(dir, "single.db"), 1), openRaw(b, filepath.Join(dir, "multi.db"), 32)
			var took [3]time.Duration
			rng, body := rand.New(rand.NewPCG(1, 2)), bytes.Repeat([]byte("x"), 200)
			for i := 0; b.Loop(); i++ {
				batch := benchEntries(rng, body, i, n)
				start := time.Now()
				if head, err = st.Append(b.Context(), head.Seq, head.Term, batch); err != nil {
					b.Fatal(err)
				}
				took[0] += time.Since(start)
				for k, raw := range []*rawFile{single, multi} {
					start = time.Now()
					raw.insert(b, batch)
					took[k+1] += time.Since(start)
				}
			}
			rows := float64(b.N * n)
			rate, raw := rows/took[0].Seconds(), rows/min(took[1], took[2]).Seconds()
			b.ReportMetric(rate, "events/s")
			b.ReportMetric(raw, "raw-rows/s")
			b.ReportMetric(rate/raw, "ratio")
		})
	}
}

// BenchmarkRead reads pages of a log of 20,000 events, all of them and those about a host.
func BenchmarkRead(b *testing.B) {
	st, err := embedded.Open(b.Context(), b.TempDir(), embedded.Options{})
	testkit.Must(b, err)
	defer st.Close()
	head := testkit.Value(st.Acquire(b.Context(), "bench", 1))(b)
	rng, body := rand.New(rand.NewPCG(1, 2)), bytes.Repeat([]byte("x"), 200)
	for i := range 20 {
		head = testkit.Value(st.Append(b.Context(), head.Seq, head.Term, benchEntries(rng, body, i, 1000)))(b)
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			testkit.Value(st.Read(b.Context(), rng.Uint64N(19_000), 1000))(b)
		}
	})
	b.Run("about", func(b *testing.B) {
		for b.Loop() {
			testkit.Value(st.ReadAbout(b.Context(), event.HostSubject(fmt.Sprintf("host-%05d", rng.IntN(10_000))), 0, 1000))(b)
		}
	})
}

// rawFile is SQLite with nothing on top.
type rawFile struct {
	one, many     driver.Stmt
	begin, commit driver.Stmt
	rows          int
	seq           int64
	args          []driver.NamedValue
}

func openRaw(b *testing.B, path string, rows int) *rawFile {
	c := testkit.Value(modernc.NewConnector("file:" + path + "?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=cache_size(-16384)"))(b)
	conn := testkit.Value(c.Connect(b.Context()))(b)
	prepare := func(q string) driver.Stmt {
		st := testkit.Value(conn.Prepare(q))(b)
		b.Cleanup(func() { st.Close() })
		return st
	}
	b.Cleanup(func() { conn.Close() })
	r := &rawFile{rows: rows}
	execRaw(b, prepare(`CREATE TABLE raw (seq INTEGER PRIMARY KEY, term INTEGER, at INTEGER, type TEXT, host TEXT,
		incarnation INTEGER, host_seq INTEGER, body BLOB)`), nil)
	const insert, values = `INSERT INTO raw VALUES `, `(?,?,?,?,?,?,?,?)`
	r.one = prepare(insert + values)
	r.many = prepare(insert + strings.Repeat(values+",", rows-1) + values)
	r.begin, r.commit = prepare("BEGIN IMMEDIATE"), prepare("COMMIT")
	return r
}

func execRaw(b *testing.B, st driver.Stmt, args []driver.NamedValue) {
	testkit.Value(st.(driver.StmtExecContext).ExecContext(context.Background(), args))(b)
}

func (r *rawFile) insert(b *testing.B, batch []event.Entry) {
	execRaw(b, r.begin, nil)
	for len(batch) > 0 {
		n, st := 1, r.one
		if len(batch) >= r.rows {
			n, st = r.rows, r.many
		}
		r.args = r.args[:0]
		for _, e := range batch[:n] {
			r.seq++
			for _, v := range []driver.Value{r.seq, int64(1), int64(e.At), e.Type, e.Host(), int64(e.Incarnation), int64(e.HostSeq), e.Body} {
				r.args = append(r.args, driver.NamedValue{Ordinal: len(r.args) + 1, Value: v})
			}
		}
		execRaw(b, st, r.args)
		batch = batch[n:]
	}
	execRaw(b, r.commit, nil)
}
