package image

import (
	"context"
	"fmt"
	"io"
	"time"
)

// Query chooses of a log.
type Query struct {
	// Follow goes on until nobody writes and nothing is under way.
	Follow bool
	Tail   int   // last lines; 0: all that are kept
	After  int64 // only lines with a higher number; there may be none yet
}

// pollInterval is how often a log that nobody writes yet is checked while what will
// write it is under way.
const pollInterval = 100 * time.Millisecond

// Copy writes the lines of a log to w and returns the number of the newest one.
// Lines that were asked for and are kept no longer are counted on notes. UnderWay
// reports whether somebody is about to write; it is asked when nobody writes.
func (s *Store) Copy(ctx context.Context, name string, q Query, underWay func() (bool, error), w, notes io.Writer) (last int64, err error) {
	c := &copier{after: q.After, w: w, notes: notes}
	var live bool
	lines, err := s.Tail(name, q.After)
	if q.Tail > 0 && len(lines) > q.Tail {
		lines = lines[len(lines)-q.Tail:]
		c.after = lines[0].Seq - 1
	}
	if err == nil {
		err = c.put(lines)
	}
	for over := false; err == nil && q.Follow; {
		if lines, err = s.Next(ctx, name, c.after); err == nil {
			err = c.put(lines)
		}
		switch {
		case err != nil:
		case len(lines) > 0:
			over = false
		case over:
			return s.Last(name)
		default:
			// It may begin, write everything and end before underWay reports that it does
			// not run: then the next check has all of it.
			if live, err = underWay(); err == nil && live {
				select {
				case <-time.After(pollInterval):
				case <-ctx.Done():
					err = context.Cause(ctx)
				}
			}
			over = !live
		}
	}
	if err != nil {
		return c.after, err
	}
	return s.Last(name)
}

type copier struct {
	after    int64
	w, notes io.Writer
}

// put writes lines, and how many between them and the one before are gone.
func (c *copier) put(lines []Line) error {
	if len(lines) == 0 {
		return nil
	}
	if gone := lines[0].Seq - c.after - 1; gone > 0 {
		if _, err := fmt.Fprintf(c.notes, "(%d lines before this are kept no longer)\n", gone); err != nil {
			return err
		}
	}
	for _, l := range lines {
		if _, err := io.WriteString(c.w, l.Text+"\n"); err != nil {
			return err
		}
		c.after = l.Seq
	}
	return nil
}

// Last returns the number of the newest line of a log, 0 if it has none.
func (s *Store) Last(name string) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.of(name)
	if err != nil {
		return 0, err
	}
	return l.last, nil
}
