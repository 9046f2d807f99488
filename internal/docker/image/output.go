package image

// This file keeps the lines of pulls and builds by name: the newest of each,
// numbered, to be read again or followed while they come. Lines are on disk as
// soon as they are written, and what is kept there is bounded as well.

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Line is one line of a log.
type Line struct {
	Seq  int64  `json:"seq"` // from 1, without gaps, over all attempts
	At   int64  `json:"at"`  // ms since 1970
	Text string `json:"text"`
}

// MaxLine bounds a line, in bytes; a longer one is cut.
const MaxLine = 8 << 10

// Store is the logs in one folder.
type Store struct {
	dir  string
	keep int // bytes of text for each name
	now  func() time.Time

	mu   sync.Mutex
	logs map[string]*log
}

// log is the log of one name. Its lock is the store's.
type log struct {
	lines   []Line
	size    int
	last    int64
	writers int
	changed chan struct{} // closed and made anew with every change
	file    *os.File
	written int
}

// Open uses a folder, made if it is missing. Of each name at least the last keep
// bytes as they are on disk are kept, 64 KiB if it is 0.
func OpenOutput(dir string, keep int) (*Store, error) {
	if keep <= 0 {
		keep = 64 << 10
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder of build logs: %w", err)
	}
	return &Store{dir: dir, keep: keep, now: time.Now, logs: map[string]*log{}}, nil
}

// path is where the log of a name is; older is its first half.
func (s *Store) path(name string, older bool) string {
	p := filepath.Join(s.dir, hex.EncodeToString([]byte(name))+".log")
	if older {
		p += ".1"
	}
	return p
}

// of gives the log of a name, read from disk the first time.
func (s *Store) of(name string) (*log, error) {
	if l := s.logs[name]; l != nil {
		return l, nil
	}
	if name == "" || len(name) > 100 {
		return nil, fmt.Errorf("%q cannot be the name of a log: use 1 to 100 bytes", name)
	}
	l := &log{changed: make(chan struct{})}
	for _, older := range []bool{true, false} {
		text, err := os.ReadFile(s.path(name, older))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("read a build log: %w", err)
		}
		l.read(text)
		if !older {
			l.written = bytes.LastIndexByte(text, '\n') + 1
		}
	}
	l.trim(s.keep)
	s.logs[name] = l
	return l, nil
}

// read takes lines from a file. One that was cut off by a crash is left out.
func (l *log) read(text []byte) {
	for line := range bytes.Lines(text) {
		seq, rest, ok1 := strings.Cut(string(line), " ")
		at, content, ok2 := strings.Cut(rest, " ")
		n, err1 := strconv.ParseInt(seq, 10, 64)
		ms, err2 := strconv.ParseInt(at, 10, 64)
		if !ok1 || !ok2 || err1 != nil || err2 != nil || !strings.HasSuffix(content, "\n") || n <= l.last {
			continue
		}
		l.add(Line{n, ms, strings.TrimSuffix(content, "\n")})
	}
}

func (l *log) add(x Line) {
	l.lines, l.size, l.last = append(l.lines, x), l.size+x.size(), x.Seq
}

// size is what a line takes on disk.
func (x Line) size() int { return len(x.String()) }

// String is the line as it is on disk.
func (x Line) String() string { return fmt.Sprintf("%d %d %s\n", x.Seq, x.At, x.Text) }

func (l *log) trim(keep int) {
	n := 0
	for n < len(l.lines)-1 && l.size-l.lines[n].size() >= keep {
		l.size -= l.lines[n].size()
		n++
	}
	if n > 0 {
		l.lines = append(l.lines[:0:0], l.lines[n:]...)
	}
}

func (l *log) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// OpenLog begins to write to the log of a name, after what it has. What is
// written is split into lines; the last one ends with Close.
func (s *Store) OpenLog(name string) (io.WriteCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.of(name)
	if err != nil {
		return nil, err
	}
	if l.file == nil {
		if l.file, err = os.OpenFile(s.path(name, false), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
			return nil, fmt.Errorf("open a build log: %w", err)
		}
		// A line that a crash cut off goes, so that the next one stands alone.
		if err := l.file.Truncate(int64(l.written)); err != nil {
			return nil, errors.Join(fmt.Errorf("open a build log: %w", err), l.file.Close())
		}
	}
	l.writers++
	l.notify()
	return &writer{s: s, l: l, name: name}, nil
}

type writer struct {
	s      *Store
	l      *log
	name   string
	rest   []byte
	closed bool
}

// Write adds the lines that are complete.
func (w *writer) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.closed {
		return 0, fs.ErrClosed
	}
	w.rest = append(w.rest, p...)
	for {
		i := bytes.IndexByte(w.rest, '\n')
		if i < 0 && len(w.rest) <= MaxLine {
			return len(p), nil
		}
		if i < 0 {
			i = MaxLine
		}
		err := w.line(w.rest[:i])
		w.rest = bytes.TrimPrefix(w.rest[i:], []byte("\n"))
		if err != nil {
			return len(p), err
		}
	}
}

// line adds one line, in memory and on disk.
func (w *writer) line(text []byte) error {
	l := w.l
	line := strings.ToValidUTF8(strings.TrimRight(string(text), "\r"), string(utf8.RuneError))
	if i := strings.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:] // a progress bar shows its last state
	}
	if len(line) > MaxLine {
		line = strings.ToValidUTF8(line[:MaxLine], "")
	}
	x := Line{l.last + 1, w.s.now().UnixMilli(), line}
	l.add(x)
	if l.size > 2*w.s.keep {
		l.trim(w.s.keep)
	}
	l.notify()
	n, err := l.file.WriteString(x.String())
	l.written += n
	if err != nil {
		return fmt.Errorf("write a build log: %w", err)
	}
	if l.written >= w.s.keep {
		return w.rotate()
	}
	return nil
}

// rotate makes the file the older half and begins another.
func (w *writer) rotate() error {
	if err := os.Rename(w.s.path(w.name, false), w.s.path(w.name, true)); err != nil {
		return fmt.Errorf("turn a build log: %w", err)
	}
	next, err := os.OpenFile(w.s.path(w.name, false), os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("turn a build log: %w", err)
	}
	old := w.l.file
	w.l.file, w.l.written = next, 0
	return old.Close()
}

// Close ends the log; whoever follows it sees its end.
func (w *writer) Close() error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.closed {
		return nil
	}
	var err error
	if len(w.rest) > 0 {
		err = w.line(w.rest)
	}
	w.closed = true
	w.l.writers--
	if w.l.writers == 0 {
		err = errors.Join(err, w.l.file.Close())
		w.l.file = nil
	}
	w.l.notify()
	return err
}

// Tail gives the lines after a number that are kept. The first one may have a higher
// number than after+1.
func (s *Store) Tail(name string, after int64) ([]Line, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.of(name)
	if err != nil {
		return nil, err
	}
	return l.after(after), nil
}

func (l *log) after(seq int64) []Line {
	for i := range l.lines {
		if l.lines[i].Seq > seq {
			return append([]Line(nil), l.lines[i:]...)
		}
	}
	return nil
}

// Next waits for lines after a number. It returns none and no error once nobody
// writes any more, and the cause of the context if that ends first.
func (s *Store) Next(ctx context.Context, name string, after int64) ([]Line, error) {
	for {
		s.mu.Lock()
		l, err := s.of(name)
		if err != nil {
			s.mu.Unlock()
			return nil, err
		}
		lines, live, changed := l.after(after), l.writers > 0, l.changed
		s.mu.Unlock()
		if len(lines) > 0 || !live {
			return lines, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Collect removes the logs of names that are not kept and that nobody writes.
func (s *Store) Collect(keep map[string]bool) error {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("folder of build logs: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, f := range files {
		text, _, _ := strings.Cut(f.Name(), ".")
		raw, err := hex.DecodeString(text)
		name := string(raw)
		if l := s.logs[name]; err != nil || keep[name] || l != nil && l.writers > 0 {
			continue
		}
		delete(s.logs, name)
		if err := os.Remove(filepath.Join(s.dir, f.Name())); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
