package store_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/store"
)

// testWait: a waiter wakes for appends and leases, of its own handle and of
// another; it never sleeps through one.
func testWait(t *testing.T, s *suite) {
	st, head := s.lead()
	other := s.open()
	got, err := st.Wait(s.Context(), store.Head{}) // the lease alone is news
	s.must(err)
	s.equal("head", got, head)

	for i, reader := range []store.Store{st, other} {
		type answer struct {
			head store.Head
			err  error
		}
		c := make(chan answer, 1)
		known := head
		go func() {
			h, err := reader.Wait(t.Context(), known)
			c <- answer{h, err}
		}()
		head, err = st.Append(s.Context(), head.Seq, head.Term, serverEvents(i, 2))
		s.must(err)
		a := <-c
		s.must(a.err)
		s.equal("head", a.head, head)
	}
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	_, err = st.Wait(ctx, head)
	s.wantErr(err, context.Canceled)

	c := make(chan error, 1)
	go func() {
		h, err := st.Wait(t.Context(), head)
		if err == nil && h.Term <= head.Term {
			err = fmt.Errorf("woke for %+v", h)
		}
		c <- err
	}()
	s.acquire(other)
	s.must(<-c)
}

// testS31Fencing: once a second handle has the lease, nothing of the first
// handle's term is committed, whatever it expects.
func testS31Fencing(_ *testing.T, s *suite) {
	first, h1 := s.lead()
	h1, err := first.Append(s.Context(), h1.Seq, h1.Term, serverEvents(0, 2))
	s.must(err)

	second := s.open()
	h2 := s.acquire(second)
	s.equal("head of the new leader", h2, store.Head{Seq: h1.Seq, Term: h1.Term + 1, Hash: h1.Hash})
	holder, err := first.Holder(s.Context())
	s.must(err)
	s.equal("holder", holder, store.Holder{Term: h2.Term, Name: "a test", At: 7})

	for _, expect := range []uint64{h1.Seq, h1.Seq + 1} {
		_, err = first.Append(s.Context(), expect, h1.Term, serverEvents(5, 1))
		s.wantErr(err, store.ErrFenced)
	}
	h2, err = second.Append(s.Context(), h2.Seq, h2.Term, serverEvents(2, 1))
	s.must(err)
	_, err = first.Append(s.Context(), h2.Seq, h1.Term, nil)
	s.wantErr(err, store.ErrFenced)

	h3 := s.acquire(first) // it may lead again, under a new term
	_, err = first.Append(s.Context(), h3.Seq, h3.Term, serverEvents(3, 1))
	s.must(err)
	_, err = second.Append(s.Context(), h3.Seq+1, h2.Term, serverEvents(3, 1))
	s.wantErr(err, store.ErrFenced)

	records := s.all(second)
	s.equal("entries", entriesOf(records), serverEvents(0, 4))
	s.equal("terms", []uint64{records[0].Term, records[1].Term, records[2].Term, records[3].Term},
		[]uint64{h1.Term, h1.Term, h2.Term, h3.Term})
}

// testS31ConcurrentLeaders: handles that lead in turns, against each other. All
// that was acknowledged is there once, nothing of what was refused, and terms never
// fall (store.Verify). One that the others keep out for too long is refused as well.
func testS31ConcurrentLeaders(t *testing.T, s *suite) {
	const leaders, turns, appends = 3, 8, 10
	var wg sync.WaitGroup
	acked := make([][]string, leaders)
	errs := make([]error, leaders)
	for l := range leaders {
		st := s.open()
		wg.Go(func() {
			for turn := range turns {
				head, err := st.Acquire(t.Context(), "leader", 1)
				for i := 0; err == nil && i < appends; i++ {
					e := serverEvent(i)
					e.Body = fmt.Appendf(nil, "%d/%d/%d", l, turn, i)
					if head, err = st.Append(t.Context(), head.Seq, head.Term, []event.Entry{e}); err == nil {
						acked[l] = append(acked[l], string(e.Body))
					}
				}
				if err != nil && !errors.Is(err, store.ErrFenced) && !errors.Is(err, store.ErrBusy) {
					errs[l] = err
					return
				}
			}
		})
	}
	wg.Wait()
	s.must(errors.Join(errs...))
	found := map[string]int{}
	for _, r := range s.all(s.open()) {
		found[string(r.Body)]++
	}
	n := 0
	for _, list := range acked {
		for _, body := range list {
			n++
			if found[body] != 1 {
				s.Errorf("acknowledged %s is there %d times", body, found[body])
			}
		}
	}
	s.equal("records that were not acknowledged", len(found)-n, 0)
}

// testS33Reopen: what was acknowledged is there for the next handle.
func testS33Reopen(_ *testing.T, s *suite) {
	st, err := s.e.open(s.name)
	s.must(err)
	head := s.acquire(st)
	head, err = st.Append(s.Context(), 0, head.Term, serverEvents(0, 100))
	s.must(err)
	s.must(st.SaveSnapshot(s.Context(), store.Snapshot{At: head, Format: "f", Body: []byte("b")}))
	d, err := st.PutBlob(s.Context(), []byte("blob"))
	s.must(err)
	s.must(st.Close())

	st = s.open()
	got, err := st.Head(s.Context())
	s.must(err)
	s.equal("head", got, head)
	s.equal("entries", entriesOf(s.all(st)), serverEvents(0, 100))
	_, err = st.Append(s.Context(), head.Seq, head.Term, serverEvents(100, 1))
	s.must(err) // the term outlives the handle
	snap, err := st.LatestSnapshot(s.Context())
	s.must(err)
	s.equal("snapshot", snap, store.Snapshot{At: head, Format: "f", Body: []byte("b")})
	b, err := st.Blob(s.Context(), d)
	s.must(err)
	s.equal("blob", string(b), "blob")
}

func testClosed(t *testing.T, s *suite) {
	st, err := s.e.open(s.name)
	s.must(err)
	head := s.acquire(st)
	c := make(chan error, 1)
	go func() {
		_, err := st.Wait(t.Context(), head)
		c <- err
	}()
	s.must(st.Close())
	s.wantErr(<-c, store.ErrClosed)
	_, err = st.Append(s.Context(), 0, head.Term, nil)
	s.wantErr(err, store.ErrClosed)
	_, err = st.Head(s.Context())
	s.wantErr(err, store.ErrClosed)
	_, err = st.PutBlob(s.Context(), []byte("b"))
	s.wantErr(err, store.ErrClosed)
	_, err = st.LatestSnapshot(s.Context())
	s.wantErr(err, store.ErrClosed)
	s.must(st.Close())
}

// testCancelled: a call that has not begun honours its context.
func testCancelled(_ *testing.T, s *suite) {
	st, head := s.lead()
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	_, err := st.Append(ctx, 0, head.Term, serverEvents(0, 1))
	s.wantErr(err, context.Canceled)
	_, err = st.Read(ctx, 0, 1)
	s.wantErr(err, context.Canceled)
	_, err = st.Acquire(ctx, "late", 1)
	s.wantErr(err, context.Canceled)
	s.equal("records", len(s.all(st)), 0)
}
