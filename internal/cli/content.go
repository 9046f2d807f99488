package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/cli/exit"
	"github.com/steadyfleet/steady/internal/cli/watch"
	"github.com/steadyfleet/steady/internal/core/digest"
	"github.com/steadyfleet/steady/internal/core/prose"
	"github.com/steadyfleet/steady/internal/release"
)

const (
	// senders is how many archives of store paths travel at a time.
	senders = 4
	// sendTries is how often one that was torn off goes on without a byte that arrived.
	sendTries = 5
	// sendNews is how often the push says how far it is.
	sendNews = 5 * time.Second
)

// sendNars sends the archives of store paths that a release names and the server does not
// have. It goes on where a former push was torn off.
func (a *app) sendNars(ctx context.Context, c *operator.Client, dir string) error {
	nars, err := release.NarsOf(os.DirFS(dir))
	if err != nil || len(nars) == 0 {
		return err
	}
	rows, named := make([]operator.ContentRow, len(nars)), map[digest.Digest]release.NamedNar{}
	for i, n := range nars {
		rows[i] = operator.ContentRow{Digest: n.Digest, Size: n.Size}
		named[n.Digest] = n
	}
	if rows, err = c.MissingContent(ctx, rows); err != nil {
		return err
	}
	s := &sending{c: c, dir: dir}
	absent, first := 0, ""
	for _, r := range rows {
		if n := named[r.Digest]; !n.Here {
			absent++
			first = cmp.Or(first, n.Of)
		}
		s.bytes += r.Size - r.Arrived
	}
	if absent > 0 {
		return exit.Badf("the server lacks %s that %s does not have either, such as %s; build the release where the systems are, or push the folder that has them", prose.Count(absent, "store path"), dir, first)
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintf(a.Err, "The server has %d of %s; sending %d, %s\n", len(nars)-len(rows), prose.Count(len(nars), "store path"), len(rows), prose.Bytes(s.bytes))
	news, end := context.WithCancel(ctx)
	defer end()
	go func() {
		for watch.Pause(news, sendNews) == nil {
			fmt.Fprintf(a.Err, "  %d of %s, %s of %s\n", s.done.Load(), prose.Count(len(rows), "store path"), prose.Bytes(s.sent.Load()), prose.Bytes(s.bytes))
		}
	}()
	return s.all(ctx, rows)
}

type sending struct {
	c     *operator.Client
	dir   string
	bytes int64
	sent  atomic.Int64
	done  atomic.Int64
}

// all sends every row, and ends with the first that cannot be sent.
func (s *sending) all(ctx context.Context, rows []operator.ContentRow) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	next := make(chan operator.ContentRow)
	var workers sync.WaitGroup
	for range senders {
		workers.Go(func() {
			for row := range next {
				if err := s.one(ctx, row); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, row := range rows {
		select {
		case next <- row:
		case <-ctx.Done():
		}
	}
	close(next)
	workers.Wait()
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("%w; what arrived stays with the server for a day: the same push goes on from there", cause)
	}
	return nil
}

// one sends an archive. As long as bytes arrive it is tried again.
func (s *sending) one(ctx context.Context, row operator.ContentRow) error {
	for tries := 0; ; tries++ {
		err := s.rest(ctx, row)
		if err == nil {
			s.done.Add(1)
			return nil
		}
		refusal, refused := errors.AsType[*operator.Error](err)
		if ctx.Err() != nil || tries >= sendTries || refused && refusal.Status < 409 {
			return err
		}
		if watch.Pause(ctx, time.Second<<min(tries, 4)) != nil {
			return err
		}
		again, asked := s.c.MissingContent(ctx, []operator.ContentRow{{Digest: row.Digest, Size: row.Size}})
		switch {
		case asked != nil:
		case len(again) == 0:
			s.done.Add(1)
			return nil
		default:
			if again[0].Arrived > row.Arrived {
				tries = -1
			}
			row = again[0]
		}
	}
}

func (s *sending) rest(ctx context.Context, row operator.ContentRow) error {
	f, err := os.Open(s.dir + "/" + release.NarPath(row.Digest))
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(row.Arrived, io.SeekStart); err != nil {
		return err
	}
	return s.c.SendContent(ctx, row, &counted{r: f, n: &s.sent})
}

// counted counts what was read. It hides that it reads a file, whose length is that of the
// whole archive.
type counted struct {
	r io.Reader
	n *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}
