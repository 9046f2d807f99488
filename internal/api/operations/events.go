package operations

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/steadyfleet/steady/internal/api/operator"
	"github.com/steadyfleet/steady/internal/core/event"
	"github.com/steadyfleet/steady/internal/replay"
	"github.com/steadyfleet/steady/internal/store"
	"github.com/steadyfleet/steady/internal/wire"
)

// maxAbout is how many things a request can ask for at once.
const maxAbout = 4

type eventsIn struct {
	After uint64   `query:"after" doc:"Events after this sequence"`
	Limit int      `query:"limit" minimum:"1" maximum:"1000" default:"100"`
	About []string `query:"about,explode" maxItems:"4" doc:"KIND/NAME: events about this, such as host/web-1 or rollout/stable@v2; several: about all of them"`
	Type  []string `query:"type,explode" maxItems:"100" doc:"Events of this type, or of a group such as rollout.*; several: of any of them"`
	Actor string   `query:"actor" maxLength:"255" doc:"Events that this operator, or part of the server, decided on"`
	From  int64    `query:"from" doc:"Events at this instant (in milliseconds since 1970) or later"`
	Until int64    `query:"until" doc:"Events at this instant or sooner"`
	Tail  bool     `query:"tail" doc:"The last events instead of the first"`
	At    uint64   `query:"at" doc:"The log as it was with this record, instead of as it is now"`
	query url.Values
}

// Resolve keeps the query as it was sent, for the filter.
func (in *eventsIn) Resolve(ctx huma.Context) []error {
	u := ctx.URL()
	in.query = u.Query()
	return nil
}

var _ huma.Resolver = (*eventsIn)(nil)

// eventOf is a record as operators see it, if the filter shows it. The records are in the order of
// the log.
func (h *Handler) eventOf(ctx context.Context, f filter, records []event.Record, i int) (e operator.Event, shown bool, err error) {
	r := &records[i]
	if !f.match(r) {
		return e, false, nil
	}
	at, err := h.c.Committed(ctx, records, i)
	if err != nil || !f.within(at) {
		return e, false, err
	}
	e = operator.Event{Seq: r.Seq, At: r.At, Term: r.Term, Type: r.Type, Subject: r.Subject,
		Incarnation: r.Incarnation, HostSeq: r.HostSeq, Body: r.Body, Hash: hex.EncodeToString(r.Hash[:])}
	if r.HostSeq != 0 {
		e.Received = at
	}
	e.Message, e.WhatIf = operator.Message(e), replay.Changeable(r)
	return e, true, nil
}

func (h *Handler) events(ctx context.Context, in *eventsIn) (operator.EventPage, error) {
	page := operator.EventPage{Events: []operator.Event{}, Next: in.After}
	f, err := h.filter(ctx, in.query)
	end := h.c.Head().Seq
	switch {
	case err != nil:
	case in.At > end:
		err = wire.Refuse(wire.ErrNotFound, "the log ends with record %d", end)
	case in.Tail && len(f.topics) == 0:
		err = h.back(ctx, f, in.Limit, cmp.Or(in.At, end), &page)
	case in.Tail && in.At != 0:
		err = h.lastBefore(ctx, f, in.Limit, in.At, &page)
	case in.Tail:
		err = h.tail(ctx, f, in.Limit, end, &page)
	default:
		err = h.scan(ctx, f, in.Limit, cmp.Or(in.At, end), &page)
	}
	if err == nil && len(page.Events) == 0 && in.After == 0 {
		err = h.known(ctx, f.topics)
	}
	return page, err
}

// records returns those behind a sequence: all of them, or those about the first thing
// of the filter.
func (h *Handler) records(ctx context.Context, f filter, after uint64, limit int) ([]event.Record, error) {
	if len(f.topics) == 0 {
		return h.c.Records(ctx, after, limit)
	}
	return merged(f.topics[0].subjects(), limit, 1, func(s event.Subject) ([]event.Record, error) { return h.c.RecordsAbout(ctx, s, after, limit) })
}

// merged reads about several subjects, each in the same order of sequences, and returns the
// first of all, each once: rising ones, or falling ones where order is -1.
func merged(subjects []event.Subject, limit, order int, read func(event.Subject) ([]event.Record, error)) (all []event.Record, err error) {
	for _, s := range subjects {
		records, err := read(s)
		if err != nil {
			return nil, err
		}
		all = append(all, records...)
	}
	if len(subjects) > 1 {
		slices.SortStableFunc(all, func(a, b event.Record) int { return order * cmp.Compare(a.Seq, b.Seq) })
		all = slices.CompactFunc(all, func(a, b event.Record) bool { return a.Seq == b.Seq })
	}
	return all[:min(len(all), limit)], nil
}

// scan adds the first events behind page.Next up to an end, and moves it to where the next page
// begins.
func (h *Handler) scan(ctx context.Context, f filter, limit int, end uint64, page *operator.EventPage) error {
	for {
		records, err := h.records(ctx, f, page.Next, 1000)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			page.Next = max(page.Next, end)
			return nil
		}
		for i := range records {
			if records[i].Seq > end {
				page.Next = end
				return nil
			}
			e, shown, err := h.eventOf(ctx, f, records, i)
			if err != nil {
				return err
			}
			if page.Next = records[i].Seq; shown {
				page.Events = append(page.Events, e)
			}
			if len(page.Events) >= limit {
				return nil
			}
		}
	}
}

// Bounds of one look backwards: how many records it reads at a time, and in all.
const (
	backAtOnce = 2000
	backInAll  = 100_000
)

// back adds the last events up to an end, and says where an earlier page goes on: it reads
// backwards, and no further than backInAll records.
func (h *Handler) back(ctx context.Context, f filter, limit int, end uint64, page *operator.EventPage) error {
	base, err := h.c.Base(ctx)
	if err != nil {
		return err
	}
	page.Next = end
	at, least := end, end-min(end, backInAll)
	for at > max(base.Seq, least) && len(page.Events) < limit {
		from := max(base.Seq, at-min(at, uint64(backAtOnce)))
		if f.plain() {
			from = max(base.Seq, at-min(at, uint64(limit)))
		}
		part := operator.EventPage{Next: from}
		if err := h.scan(ctx, f, int(at-from), at, &part); err != nil {
			return err
		}
		page.Events, at = append(part.Events, page.Events...), from
	}
	if over := len(page.Events) - limit; over > 0 {
		page.Events = page.Events[over:]
		at = page.Events[0].Seq - 1
	}
	if at > base.Seq {
		page.Earlier = at
	}
	return nil
}

// lastBefore adds the last events up to an end. It reads all that came before them: the index
// goes backwards from the end of the log alone.
func (h *Handler) lastBefore(ctx context.Context, f filter, limit int, end uint64, page *operator.EventPage) error {
	for page.Next = 0; page.Next < end; {
		records, err := h.records(ctx, f, page.Next, store.MaxRead)
		if err != nil {
			return err
		}
		page.Next = end
		for i := range records {
			if page.Next = records[i].Seq; page.Next > end {
				break
			}
			e, shown, err := h.eventOf(ctx, f, records, i)
			if err != nil {
				return err
			}
			if shown {
				page.Events = append(page.Events, e)
			}
		}
		if over := len(page.Events) - limit; over > 0 {
			page.Events = slices.Delete(page.Events, 0, over)
			page.Earlier = page.Events[0].Seq - 1
		}
	}
	page.Next = end
	return nil
}

// tail adds the last events about something, up to the end of the log.
func (h *Handler) tail(ctx context.Context, f filter, limit int, end uint64, page *operator.EventPage) error {
	page.Next = end
	n := limit
	if !f.onlyAbout() { // some of them are not about the others, of another machine, or of another type
		n = store.MaxRead
	}
	records, err := merged(f.topics[0].subjects(), n, -1, func(s event.Subject) ([]event.Record, error) { return h.c.LastAbout(ctx, s, n) })
	slices.Reverse(records)
	for i := len(records) - 1; i >= 0 && err == nil && len(page.Events) < limit; i-- {
		e, shown, failed := h.eventOf(ctx, f, records, i)
		if err = failed; shown {
			page.Events = append(page.Events, e)
		}
		if len(records)-i == n || len(page.Events) == limit {
			page.Earlier = records[i].Seq - 1
		}
	}
	slices.Reverse(page.Events)
	return err
}

const (
	keepAlive    = 15 * time.Second
	writeTimeout = 10 * time.Second
)

// stream follows the log as server-sent events. The id of each is its sequence,
// from which Last-Event-ID goes on.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	for key := range q {
		if key != "after" && key != "tail" && !slices.Contains(filters, key) {
			h.problem(w, refused(http.StatusUnprocessableEntity, fmt.Sprintf("unknown parameter %q", key)))
			return
		}
	}
	f, err := h.filter(r.Context(), q)
	if err != nil {
		h.problem(w, h.refusal(err))
		return
	}
	after := uint64(0)
	for _, s := range []string{q.Get("after"), r.Header.Get("Last-Event-ID")} {
		if s == "" {
			continue
		}
		n, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			h.problem(w, refused(http.StatusUnprocessableEntity, "after and Last-Event-ID are sequences of events"))
			return
		}
		after = n
	}
	if q.Get("tail") == "true" && r.Header.Get("Last-Event-ID") == "" {
		after = h.c.Head().Seq
	}
	s := h.serverSent(w)
	if s == nil {
		return
	}
	defer h.leave()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	if s.write([]byte(": follow\n\n")) != nil {
		return
	}
	var alive sync.WaitGroup
	defer alive.Wait()
	defer cancel()
	alive.Go(func() { h.keepAlive(ctx, cancel, s, r) })
	err = h.follow(ctx, f, after, s)
	if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, store.ErrClosed) {
		h.log.Debug("an event stream ended", "err", err)
	}
}

// serverSent begins a stream of events, of which leave is the end; nil was refused.
func (h *Handler) serverSent(w http.ResponseWriter) *sse {
	if !h.enter(w) {
		return nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	s := &sse{w: w, rc: http.NewResponseController(w)}
	_ = s.rc.SetReadDeadline(time.Time{})
	return s
}

// leave gives back the place that enter took.
func (h *Handler) leave() { <-h.streams }

// enter takes a place among the streams that are open, or answers that there is none.
func (h *Handler) enter(w http.ResponseWriter) bool {
	select {
	case h.streams <- struct{}{}:
		return true
	default:
		w.Header().Set("Retry-After", "5")
		h.problem(w, refused(http.StatusTooManyRequests, "too many streams of events are open; close some, or try again later"))
		return false
	}
}

// follow writes the events behind a sequence: those about the filter's first thing as
// the index has them, then what is committed from now on.
func (h *Handler) follow(ctx context.Context, f filter, after uint64, s *sse) error {
	from := h.c.Head().Seq
	for len(f.topics) > 0 && after < from {
		records, err := h.records(ctx, f, after, 500)
		if err != nil {
			return err
		}
		if len(records) == 0 {
			after = from
			break
		}
		after = records[len(records)-1].Seq
		if err := h.write(ctx, s, f, records); err != nil {
			return err
		}
	}
	return h.c.Follow(ctx, after, func(records []event.Record) error { return h.write(ctx, s, f, records) })
}

// keepAlive keeps the stream open while the token is good.
func (h *Handler) keepAlive(ctx context.Context, cancel func(), s *sse, r *http.Request) {
	t := time.NewTicker(keepAlive)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if _, refused := h.admit(r, viewing); refused != nil || s.write([]byte(":\n\n")) != nil {
				cancel()
				return
			}
		}
	}
}

// sse writes a stream of events.
type sse struct {
	mu  sync.Mutex
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf bytes.Buffer
}

func (s *sse) write(b []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := s.w.Write(b); err != nil {
		return err
	}
	if err := s.rc.Flush(); err != nil {
		return err
	}
	// On HTTP/2 a deadline that passes ends the stream even while nothing is
	// written.
	return s.rc.SetWriteDeadline(time.Time{})
}

// write writes those of some records that the filter shows.
func (h *Handler) write(ctx context.Context, s *sse, f filter, records []event.Record) error {
	s.buf.Reset()
	for i := range records {
		e, shown, err := h.eventOf(ctx, f, records, i)
		if err != nil {
			return err
		}
		if !shown {
			continue
		}
		data, err := json.Marshal(e)
		if err != nil {
			return err
		}
		fmt.Fprintf(&s.buf, "id: %d\nevent: %s\ndata: %s\n\n", e.Seq, e.Type, data)
	}
	if s.buf.Len() == 0 {
		return nil
	}
	return s.write(s.buf.Bytes())
}
